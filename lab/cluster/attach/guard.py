"""Decides what a run may do to an existing cluster, and refuses steps that are not known to be harmless."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.cluster.attach.permit import Permit

_MON_READS = (
    "crash info",
    "crash ls",
    "df",
    "features",
    "fsid",
    "fs dump",
    "fs ls",
    "health",
    "log last",
    "mgr dump",
    "mgr metadata",
    "mgr module ls",
    "mgr services",
    "mgr stat",
    "mgr versions",
    "mon dump",
    "mon getmap",
    "mon metadata",
    "mon stat",
    "mon versions",
    "nvme-gw show",
    "orch host ls",
    "orch ls",
    "orch ps",
    "osd blocked-by",
    "osd crush class ls",
    "osd crush dump",
    "osd crush rule dump",
    "osd crush rule ls",
    "osd crush tree",
    "osd df",
    "osd dump",
    "osd erasure-code-profile get",
    "osd erasure-code-profile ls",
    "osd find",
    "osd getcrushmap",
    "osd getmap",
    "osd last-stat-seq",
    "osd ls",
    "osd lspools",
    "osd map",
    "osd metadata",
    "osd perf",
    "osd pool autoscale-status",
    "osd pool get",
    "osd pool get-quota",
    "osd pool ls",
    "osd pool stats",
    "osd stat",
    "osd tree",
    "osd utilization",
    "osd versions",
    "pg dump",
    "pg dump_json",
    "pg getmap",
    "pg ls",
    "pg ls-by-osd",
    "pg ls-by-pool",
    "pg ls-by-primary",
    "pg map",
    "pg stat",
    "quorum_status",
    "status",
    "time-sync-status",
    "versions",
)
"""Commands of monitors and manager that change nothing and show no key."""

_DAEMON_READS = (
    "cache status",
    "counter dump",
    "dump_historic_ops",
    "dump_mempools",
    "dump_ops_in_flight",
    "dump_watchers",
    "flush_pg_stats",
    "get_latest_osdmap",
    "get_mapped_pools",
    "list_unfound",
    "log dump",
    "mon_status",
    "perf dump",
    "perf histogram dump",
    "perf schema",
    "query",
    "quorum_status",
    "status",
    "version",
)
"""Commands to one daemon, or to a PG's primary, that change nothing. `flush_pg_stats` only sends statistics earlier,
and `get_latest_osdmap` only fetches a map earlier."""

_SHOWN_OPTIONS = ("log_file", "log_to_file", "mon_data")
"""Options whose value a daemon may be asked for. Values of others may be secrets."""

_POOL_COMMANDS = {
    "osd pool application enable",
    "osd pool create",
    "osd pool delete",
    "osd pool mksnap",
    "osd pool rm",
    "osd pool rmsnap",
    "osd pool set",
    "osd pool set-quota",
}
"""Commands on one pool, which the argument `pool` names."""

_OSD_COMMANDS = {
    "osd crush reweight": "name",
    "osd deep-scrub": "who",
    "osd down": "ids",
    "osd in": "ids",
    "osd out": "ids",
    "osd primary-affinity": "id",
    "osd repair": "who",
    "osd reweight": "id",
    "osd scrub": "who",
}
"""Commands on OSDs -> the argument that names them."""

_PROFILE_COMMANDS = {
    "osd crush rule create-erasure",
    "osd crush rule create-replicated",
    "osd crush rule create-simple",
    "osd crush rule rm",
    "osd erasure-code-profile rm",
    "osd erasure-code-profile set",
}
"""Commands on a profile or a rule, which has the name of its pool."""

_PG_COMMANDS = {"deep-scrub", "deep_scrub", "pg deep-scrub", "pg repair", "pg scrub", "repair", "scrub"}

_FREE_OPERATIONS = {"about", "clock", "forget_pool", "pgs"}
"""Operations of a client's agent that neither read nor change data."""


class NotPermitted(Unavailable):
    """A step was refused, because it would touch something that is not on the list."""

    def __init__(self, what: str, key: str = "", name: str = "", *, hint: str = "") -> None:
        allow = f"allow it with --may-break: {key} = [{name!r}]" if key else "run it on a cluster that the lab made"
        super().__init__(f"not permitted on the attached cluster: {what}", "nothing was done", hint or allow)


@dataclass(frozen=True)
class Existing:
    """Pools, profiles and rules from before the run. The run never changes or removes them, whatever the list says."""

    pools: frozenset[str] = frozenset()
    profiles: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Guard:
    """Judges each step before it is done. pool_names: returns id -> name of the current pools."""

    permit: Permit
    existing: Existing
    pool_names: Callable[[], Mapping[int, str]]

    def pool(self, name: str) -> None:
        """Raises NotPermitted unless a pool may be touched."""
        if name not in self.permit.pools:
            raise NotPermitted(f"pool {name!r} is not on the list", "pools", name)
        if name in self.existing.pools:
            raise NotPermitted(f"pool {name!r} existed before the run")

    def bucket(self, name: str) -> None:
        """Raises NotPermitted unless an S3 bucket may be made. Creating it shows whether it existed already."""
        if name not in self.permit.buckets:
            raise NotPermitted(f"bucket {name!r} is not on the list", "buckets", name)

    def daemon(self, name: str, verb: str) -> None:
        """Raises NotPermitted unless a daemon may be touched."""
        if name not in self.permit.daemons:
            raise NotPermitted(f"{verb} of {name}, which is not on the list", "daemons", name)

    def program(self, host: str, program: str) -> None:
        """Raises NotPermitted unless programs of a scenario may run on a machine."""
        if host not in self.permit.hosts:
            raise NotPermitted(f"{program} on {host}, which is not on the list", "hosts", host)

    def disk(self, host: str, name: str) -> str:
        """Path of a disk on a machine; NotPermitted unless it is on the list."""
        for disk in self.permit.disks:
            if disk.host == host and disk.name == name:
                return disk.path
        raise NotPermitted(f"disk {name!r} of {host} is not on the list", "disks", f"{host}:/dev/{name}")

    def request(self, request: Mapping[str, Any]) -> None:
        """Judge a request to a client's agent (lab/ceph/agent.py): {op, ...}."""
        operation = str(request.get("op", ""))
        pools = [request[key] for key in ("pool", "data_pool") if request.get(key) is not None]
        if operation in _FREE_OPERATIONS:
            return
        if operation == "command":
            self.command(str(request["target"]), request["command"])
        elif not pools:
            raise NotPermitted(f"the operation {operation!r}, which names no pool")
        else:
            for pool in pools:
                self.pool(str(pool))

    def command(self, target: str, command: Mapping[str, Any]) -> None:
        """Judge a Ceph command. target: mon, mgr, KIND.ID, or pg:PGID."""
        prefix = str(command.get("prefix", ""))
        if target in ("mon", "mgr"):
            self._to_monitors(prefix, command)
        elif prefix in _DAEMON_READS or (prefix == "config get" and command.get("var") in _SHOWN_OPTIONS):
            return
        elif target.startswith("pg:"):
            self._pg(prefix, target.removeprefix("pg:"))
        else:
            self.daemon(target, f"the command {prefix!r}")

    def _to_monitors(self, prefix: str, command: Mapping[str, Any]) -> None:
        if prefix in _MON_READS:
            return
        if prefix in _POOL_COMMANDS:
            self.pool(str(command.get("pool")))
        elif prefix in _OSD_COMMANDS:
            self._osds(prefix, command.get(_OSD_COMMANDS[prefix]))
        elif prefix in _PROFILE_COMMANDS:
            self._profile(prefix, str(command.get("name")))
        elif prefix in _PG_COMMANDS:
            self._pg(prefix, str(command.get("pgid")))
        else:
            raise NotPermitted(f"the command {prefix!r}, which is not known to affect only one pool or OSD")

    def _osds(self, prefix: str, named: Any) -> None:
        several = named if isinstance(named, Iterable) and not isinstance(named, str) else [named]
        names = [f"osd.{str(osd).removeprefix('osd.')}" for osd in several]
        if not names:
            raise NotPermitted(f"the command {prefix!r}, which names no OSD")
        for name in names:
            self.daemon(name, f"the command {prefix!r}")

    def _profile(self, prefix: str, name: str) -> None:
        pool = name.removesuffix("-profile")
        self.pool(pool)
        if name in (self.existing.rules if "rule" in prefix else self.existing.profiles):
            raise NotPermitted(f"{name!r} of the command {prefix!r} existed before the run")

    def _pg(self, prefix: str, pgid: str) -> None:
        if prefix not in _PG_COMMANDS:
            raise NotPermitted(f"the command {prefix!r} to PG {pgid}")
        number = pgid.partition(".")[0]
        name = self.pool_names().get(int(number)) if number.isdigit() else None
        if name is None:
            raise NotPermitted(f"the command {prefix!r} to PG {pgid}, which belongs to no pool")
        self.pool(name)
