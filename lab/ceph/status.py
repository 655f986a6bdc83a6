"""The cluster's status as frozen values, parsed once from Ceph's JSON, with predicates on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import CephTrouble, output_of

LASTING = {"BLUESTORE_SPURIOUS_READ_ERRORS": "the disk returned wrong data that was right when read again: replace it"}
"""Health checks that stay until their OSD starts again, with what to do."""


@dataclass(frozen=True)
class HealthCheck:
    """One health check, e.g. code OSD_DOWN. muted: it is raised, but does not count in the cluster's health."""

    code: str
    message: str
    muted: bool = False


@dataclass(frozen=True)
class Status:
    """The answer of `ceph status`, typed. pg_states: state -> count of PGs; quorum: names of monitors."""

    health: str
    checks: tuple[HealthCheck, ...]
    quorum: tuple[str, ...]
    mons: int
    mgr_available: bool
    osds: int
    osds_up: int
    osds_in: int
    pgs: int
    pg_states: Mapping[str, int]
    objects: int
    degraded_objects: int
    misplaced_objects: int
    unfound_objects: int
    recovering_bytes_s: int
    used_bytes: int
    total_bytes: int

    @property
    def ok(self) -> bool:
        return self.health == "HEALTH_OK"

    @property
    def all_up(self) -> bool:
        return self.osds_up == self.osds

    @property
    def clean(self) -> bool:
        """Every PG is active+clean, scrubbing or not, and there is at least one."""
        clean = sum(count for state, count in self.pg_states.items() if {"active", "clean"} <= set(state.split("+")))
        return self.pgs > 0 and clean == self.pgs

    def has(self, code: str) -> bool:
        """Whether a health check of that code is raised."""
        return any(check.code == code for check in self.checks)

    @property
    def sound(self) -> bool:
        """HEALTH_OK. Raises CephTrouble for what no wait clears, so that a wait for health ends at once."""
        for check in self.checks:
            if check.code in LASTING and not check.muted:
                raise CephTrouble(f"{check.code}: {check.message}", str(self), LASTING[check.code])
        return self.ok

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.pg_states.items())) or "no PGs"
        checks = "; ".join(f"{check.code}: {check.message}" for check in self.checks)
        return (
            f"{self.health}{f' ({checks})' if checks else ''}; quorum {len(self.quorum)}/{self.mons}; "
            f"mgr {'active' if self.mgr_available else 'not available'}; "
            f"OSDs {self.osds_up} up, {self.osds_in} in of {self.osds}; PGs: {states}"
        )


@output_of("`ceph status`")
def parse_status(raw: Mapping[str, Any]) -> Status:
    """Read the JSON of `ceph status` (nautilus to tentacle)."""
    pgmap, monmap = raw.get("pgmap", {}), raw.get("monmap", {})
    osdmap = raw["osdmap"]
    # Before Octopus, and in some later releases, the counts are nested one level deeper.
    osdmap = osdmap.get("osdmap", osdmap)
    return Status(
        health=raw["health"]["status"],
        checks=tuple(
            # Nautilus cannot mute and does not say.
            HealthCheck(code, check["summary"]["message"], bool(check.get("muted")))
            for code, check in sorted(raw["health"].get("checks", {}).items())
        ),
        quorum=tuple(raw.get("quorum_names", ())),
        # Nautilus before 14.2.17 lists them and gives no count.
        mons=int(monmap.get("num_mons", len(monmap.get("mons", ())))),
        mgr_available=bool(raw.get("mgrmap", {}).get("available")),
        osds=int(osdmap["num_osds"]),
        osds_up=int(osdmap["num_up_osds"]),
        osds_in=int(osdmap["num_in_osds"]),
        pgs=int(pgmap.get("num_pgs", 0)),
        pg_states={state["state_name"]: int(state["count"]) for state in pgmap.get("pgs_by_state", ())},
        objects=int(pgmap.get("num_objects", 0)),
        degraded_objects=int(pgmap.get("degraded_objects", 0)),
        misplaced_objects=int(pgmap.get("misplaced_objects", 0)),
        unfound_objects=int(pgmap.get("unfound_objects", 0)),
        recovering_bytes_s=int(pgmap.get("recovering_bytes_per_sec", 0)),
        used_bytes=int(pgmap.get("bytes_used", 0)),
        total_bytes=int(pgmap.get("bytes_total", 0)),
    )
