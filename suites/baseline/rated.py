"""What a profile says that a host should do: a limit where the host is such a machine, a figure beside it where not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cephlab.lab.history.history import Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.profile import Disks, Figure, MachineClass, Profile

SLACK = 2.0
"""How far from its profile a machine may be. The model promises its figures within a factor of two; for a machine that
is further from its own profile than that it says nothing. It also holds what a shared machine's neighbours take."""


@dataclass(frozen=True)
class Rating:
    """One figure of a profile. of: where it is; shown: in the unit that the suite notes; smaller: that is better."""

    of: Callable[[MachineClass], Figure | None]
    shown: Callable[[float], float]
    smaller: bool = False


def _disk(pick: Callable[[Disks], Figure | None]) -> Callable[[MachineClass], Figure | None]:
    """Of the machine's first kind of data disks."""
    return lambda machine: pick(machine.data_disks[0]) if machine.data_disks else None


def _mib(bytes_s: float) -> float:
    return bytes_s / MIB


SYNC_WRITES = Rating(_disk(lambda disks: disks.sync_latency), lambda seconds: 1 / seconds)
SYNC_LATENCY = Rating(_disk(lambda disks: disks.sync_latency), lambda seconds: seconds * 1e3, smaller=True)
SEQUENTIAL = {
    "write": Rating(_disk(lambda disks: disks.seq_write), _mib),
    "read": Rating(_disk(lambda disks: disks.seq_read), _mib),
}
NETWORK = Rating(lambda machine: machine.bandwidth, lambda bytes_s: bytes_s * 8 / 1e6)
CHECKSUM = Rating(lambda machine: machine.crc32c, _mib)
ERASURE_ENCODE = Rating(lambda machine: machine.ec_encode, _mib)


def speed(stage: Stage, host: Host, rating: Rating | None = None) -> Bound:
    """What a speed on a host is held against. rating: None for a speed that profiles do not have.

    Nothing on an emulated host, and nothing without a profile: the speed is that of a machine which somebody shares.
    """
    if host.emulated:
        return Bound(f"{host.name} is emulated, its speed gives no verdict")
    profile = profile_of(stage)
    if profile is None:
        return Bound(f"{host.name} is held against no profile; `--profile this-machine` names one")
    alike = [machine for machine in profile.nodes if machine.arch is host.arch]
    figures = [figure for machine in alike if rating and (figure := rating.of(machine)) is not None]
    if rating is None or not figures:
        return Bound(f"{profile.name} says nothing of it for {host.arch}")
    least = min(figures, key=lambda figure: rating.shown(figure.value) * (-1 if rating.smaller else 1))
    return bound(profile, rating, least, judged=are_machines_of(stage.cluster.provider, profile))


def bound(profile: Profile, rating: Rating, figure: Figure, *, judged: bool) -> Bound:
    """The limit that a figure of a profile makes, or the figure alone where the host is not such a machine."""
    rated = rating.shown(figure.value)
    says = f"{profile.name}: {rated:.6g} [{figure.source}]"
    if not judged:
        return Bound(f"{says}; the host is not one of its machines")
    if rating.smaller:
        return Bound(f"{says}, times {SLACK:g}", most=rated * SLACK)
    return Bound(f"{says}, over {SLACK:g}", least=rated / SLACK)
