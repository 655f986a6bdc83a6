"""What would be enough: for each kind of hardware, the least change that is sure to meet a requirement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from cephlab.tuning.profile import Disks, Figure, MachineClass, Profile
from cephlab.tuning.requirements import LoadRequirement, Requirement
from cephlab.tuning.units import digits

MOST = 64
"""A change is tried up to this many times the present amount."""
GIGABIT = 1e9 / 8


@dataclass(frozen=True)
class Enough:
    """kind: of the change; words: amounts before and after. limited_by: the limit after it. met: whether it is enough.

    Where no change of that kind is enough, words and limited_by describe the largest that was tried.
    """

    kind: str
    words: str
    limited_by: str
    met: bool

    def __str__(self) -> str:
        if self.met:
            return f"{self.words}, then limited by {self.limited_by}"
        return f"not {self.kind} alone ({self.words}): still limited by {self.limited_by}"


Judge = Callable[[Profile], tuple[bool, str]]
"""A profile -> whether it is sure to meet the requirement, and what limits it."""


def enough(profile: Profile, judge: Judge, kinds: Sequence[str]) -> Iterator[Enough]:
    """The least change of each kind; nodes and clients together where no kind alone is enough.

    A kind of which the profile has nothing is left out.
    """
    tried = [_least(profile, judge, kind) for kind in kinds if KINDS[kind].first(profile)]
    yield from tried
    if {"nodes", "clients"} <= {change.kind for change in tried} and not any(change.met for change in tried):
        yield _least(profile, judge, TOGETHER)


def _least(profile: Profile, judge: Judge, kind: str) -> Enough:
    """Double the step until the change is enough, then halve the gap to the largest that was not."""
    grow = KINDS[kind]
    first = grow.first(profile)
    low, high, top = 0, 1, ceil(first * (MOST - 1))
    while high < top and not judge(grow.grown(profile, high / first))[0]:
        low, high = high, min(high * 2, top)
    is_met, limited_by = judge(grow.grown(profile, high / first))
    while is_met and high - low > 1:
        middle = (low + high) // 2
        passes, then = judge(grow.grown(profile, middle / first))
        low, high = (low, middle) if passes else (middle, high)
        limited_by = then if passes else limited_by
    return Enough(kind, grow.words(profile, grow.grown(profile, high / first)), limited_by, is_met)


@dataclass(frozen=True)
class Growth:
    """A kind of change. first: the present amount, in steps; 0: none. grown: makes it larger, by a share of it.

    words: describes the change from one profile to another.
    """

    first: Callable[[Profile], float]
    grown: Callable[[Profile, float], Profile]
    words: Callable[[Profile, Profile], str]


def _more(count: int, by: float) -> int:
    # Rounding errors must not add a step to a whole number of them.
    return ceil(count * (1 + by) - 1e-9)


def _machines(
    key: str,
    change: Callable[[MachineClass, float], MachineClass],
    words_of: Callable[[MachineClass], str],
    amount: Callable[[MachineClass], float],
) -> Growth:
    """A change of every machine in `nodes` or `clients`."""

    def grown(profile: Profile, by: float) -> Profile:
        values: Mapping[str, Any] = {key: tuple(change(machine, by) for machine in getattr(profile, key))}
        return replace(profile, **values)

    def words(was: Profile, becomes: Profile) -> str:
        return _words(getattr(was, key), getattr(becomes, key), words_of)

    return Growth(lambda profile: max(map(amount, getattr(profile, key)), default=0.0), grown, words)


def _words(
    was: Sequence[MachineClass], becomes: Sequence[MachineClass], words_of: Callable[[MachineClass], str]
) -> str:
    pairs = zip(was, becomes, strict=True)
    return ", ".join(
        f"{old.name}: {words_of(old)} -> {words_of(new)}" for old, new in pairs if words_of(old) != words_of(new)
    )


def _disks(machine: MachineClass, by: float) -> MachineClass:
    def more(disks: Disks) -> Disks:
        return replace(disks, count=_more(disks.count, by))

    return replace(machine, disks=tuple(map(more, machine.disks)))


def _disk_words(machine: MachineClass) -> str:
    return " and ".join(f"{disks.count} {disks.name}" for disks in machine.disks)


def _wider(figure: Figure | None, by: float) -> Figure | None:
    return figure.times(1 + by) if figure else None


def _links(profile: Profile, by: float) -> Profile:
    """Make the links of nodes, between OSDs and to the clients, wider by the same share."""

    def wider(machine: MachineClass) -> MachineClass:
        between = _wider(machine.cluster_bandwidth, by)
        return replace(machine, bandwidth=machine.bandwidth.times(1 + by), cluster_bandwidth=between)

    return replace(profile, nodes=tuple(map(wider, profile.nodes)), uplink=_wider(profile.uplink, by))


def _gigabits(rate: Figure) -> str:
    return f"{digits(rate.value / GIGABIT, 4)} Gb/s"


def _link(machine: MachineClass) -> str:
    between = machine.cluster_bandwidth
    return _gigabits(machine.bandwidth) + (f" and {_gigabits(between)} between OSDs" if between else "")


def _link_words(was: Profile, becomes: Profile) -> str:
    """All links that `_links` makes wider, since the change is enough only with all of them."""
    words = _words(was.nodes, becomes.nodes, _link)
    if was.uplink and becomes.uplink:
        words += f", uplink: {_gigabits(was.uplink)} -> {_gigabits(becomes.uplink)}"
    return words


TOGETHER = "nodes and clients"

_NODES, _CLIENTS = (
    _machines(
        key,
        lambda machine, by: replace(machine, count=_more(machine.count, by)),
        lambda machine: f"{machine.count} machines",
        lambda machine: machine.count,
    )
    for key in ("nodes", "clients")
)

KINDS: Mapping[str, Growth] = {
    "nodes": _NODES,
    "cores": _machines(
        "nodes",
        lambda machine, by: replace(machine, cores=_more(machine.cores, by)),
        lambda machine: f"{machine.cores} cores",
        lambda machine: machine.cores,
    ),
    "disks": _machines(
        "nodes", _disks, _disk_words, lambda machine: max((disks.count for disks in machine.disks), default=0)
    ),
    "network": Growth(
        lambda profile: max(machine.bandwidth.value for machine in profile.nodes) / GIGABIT,
        _links,
        _link_words,
    ),
    "clients": _CLIENTS,
    TOGETHER: Growth(
        _NODES.first,
        lambda profile, by: _CLIENTS.grown(_NODES.grown(profile, by), by),
        lambda was, becomes: f"{_NODES.words(was, becomes)}, {_CLIENTS.words(was, becomes)}",
    ),
}

_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "load": ("nodes", "cores", "disks", "network", "clients"),
    "recovery": ("nodes", "disks", "network"),
    "capacity": ("nodes", "disks"),
    "objects": ("nodes", "disks"),
    "power": (),
}
"""Which changes can help a kind of requirement."""


def kinds_for(requirement: Requirement) -> tuple[str, ...]:
    """Which changes can help. Where watts count, none inside a node: `power_loaded` is that of the declared node."""
    kinds = _OF_KIND[requirement.kind]
    if isinstance(requirement, LoadRequirement) and requirement.per_watt_at_least:
        return tuple(kind for kind in kinds if kind in ("nodes", "clients"))
    return kinds
