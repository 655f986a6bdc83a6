"""Bounds of a host's speed from a profile: a limit on the profile's own machines, elsewhere a figure for comparison."""

from collections.abc import Callable
from dataclasses import dataclass

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning import memory
from cephlab.tuning.profile import Disks, Figure, MachineClass, Profile

SLACK = 2.0
"""Factor by which a machine may miss its profile. The model promises its figures within a factor of two, so it does not
hold for a machine that misses its own profile by more. The factor also covers other load on a shared machine."""


@dataclass(frozen=True)
class Rating:
    """One figure of a profile. of: finds it; shown: converts it to the suite's unit; smaller: less is better."""

    of: Callable[[MachineClass], Figure | None]
    shown: Callable[[float], float]
    smaller: bool = False


def _disk(pick: Callable[[Disks], Figure | None]) -> Callable[[MachineClass], Figure | None]:
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
    """The bound of a speed on a host. rating: None for a speed that profiles do not have.

    There is no limit for an emulated host, nor without a profile: other programs share the machine.
    """
    if host.emulated:
        return Bound(f"{host.name} is emulated, so its speed is not judged", basis=Basis.NOTED)
    profile = profile_of(stage)
    if profile is None:
        return Bound(f"no profile to judge {host.name} by; `--profile this-machine` names one", basis=Basis.NOTED)
    machines = [machine for machine in profile.nodes if machine.arch is host.arch]
    figures = [figure for machine in machines if rating and (figure := rating.of(machine)) is not None]
    if rating is None or not figures:
        return Bound(f"{profile.name} has no such figure for {host.arch}", basis=Basis.NOTED)
    least = min(figures, key=lambda figure: rating.shown(figure.value) * (-1 if rating.smaller else 1))
    return bound(profile, rating, least, judged=are_machines_of(stage.cluster.provider, profile))


def osd_memory(stage: Stage, host: Host) -> Bound:
    """The bound of an OSD's resident memory, in MiB: its share of the profile's machine, times memory.OVER."""
    profile = profile_of(stage)
    if host.emulated or profile is None:
        why = "the figure includes the emulator's own memory" if host.emulated else "no profile to judge it by"
        return Bound(f"{host.name}: {why}", basis=Basis.NOTED)
    shares = [memory.osd_bytes(machine) for machine in profile.nodes if machine.arch is host.arch and machine.osds]
    if not shares:
        return Bound(f"{profile.name} has no OSDs on {host.arch}", basis=Basis.NOTED)
    most = max(shares) * memory.OVER / MIB
    source = f"{profile.name}: {max(shares) / MIB:.6g} MiB [{memory.SOURCE}], times {memory.OVER:g}"
    if not are_machines_of(stage.cluster.provider, profile):
        return Bound(f"{source}; the host is not one of its machines", basis=Basis.NOTED)
    return Bound(source, most=most, basis=Basis.PROFILE)


def bound(profile: Profile, rating: Rating, figure: Figure, *, judged: bool) -> Bound:
    """The bound from a profile's figure: a limit if judged, else only the figure for comparison."""
    rated = rating.shown(figure.value)
    source = f"{profile.name}: {rated:.6g} [{figure.source}]"
    if not judged:
        return Bound(f"{source}; the host is not one of its machines", basis=Basis.NOTED)
    if rating.smaller:
        return Bound(f"{source}, times {SLACK:g}", most=rated * SLACK, basis=Basis.PROFILE)
    return Bound(f"{source}, divided by {SLACK:g}", least=rated / SLACK, basis=Basis.PROFILE)
