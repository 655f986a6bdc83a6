"""Placement groups as their primary OSDs report them, so that no state is older than the request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import output_of

NO_OSD = 0x7FFFFFFF
"""CRUSH_ITEM_NONE (src/crush/crush.h): marks a shard that no OSD has."""


@dataclass(frozen=True)
class Pg:
    """A PG as its primary sees it. epoch: epoch of the primary's OSD map; 0 if the primary did not answer."""

    pgid: str
    state: str
    epoch: int
    acting: tuple[int, ...]
    acting_primary: int

    def clean_at(self, epoch: int) -> bool:
        """Whether it is active+clean with that map or a newer one, scrubbing or not."""
        return self.epoch >= epoch and {"active", "clean"} <= self.states

    @property
    def states(self) -> set[str]:
        return set(self.state.split("+"))

    @property
    def remapped(self) -> bool:
        """Whether it is on other OSDs than CRUSH chooses."""
        return "remapped" in self.states


@dataclass(frozen=True)
class Placement:
    """All PGs at one moment. epoch: map that they must have; waiting_for: OSDs that must come up or catch up first."""

    epoch: int
    pgs: tuple[Pg, ...]
    waiting_for: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return bool(self.pgs) and not self.waiting_for and not self.unclean

    @property
    def unclean(self) -> tuple[Pg, ...]:
        return tuple(pg for pg in self.pgs if not pg.clean_at(self.epoch))

    def __str__(self) -> str:
        if self.waiting_for:
            return f"map {self.epoch}: {', '.join(self.waiting_for)}"
        late = ", ".join(f"{pg.pgid} {pg.state} at map {pg.epoch} on {list(pg.acting)}" for pg in self.unclean[:8])
        return f"map {self.epoch}: {len(self.unclean)} of {len(self.pgs)} PGs not clean: {late}"


def pgids(pool: Mapping[str, Any]) -> list[str]:
    """Ids of a pool's PGs, from its entry in `osd dump`."""
    return [f"{pool['pool']}.{number:x}" for number in range(int(pool["pg_num"]))]


@output_of("`pg dump`")
def parse_pgs(rows: Sequence[Mapping[str, Any]]) -> tuple[Pg, ...]:
    """The PGs in an answer of the agent's `pgs`."""
    return tuple(
        Pg(row["pgid"], row["state"], int(row["epoch"]), tuple(row["acting"]), int(row["acting_primary"]))
        for row in rows
    )
