"""A host's speed by a profile: a limit on the profile's own machines, a figure to compare with elsewhere."""

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
"""Factor by which a machine may miss its profile. The model promises its figures within a factor of two, so it says
nothing about a machine that misses its own profile by more. The factor also covers a shared machine's neighbours."""


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

    There is no limit on an emulated host or without a profile: others share the machine.
    """
    if host.emulated:
        return Bound(f"{host.name} is emulated, its speed is not judged", basis=Basis.NOTED)
    profile = profile_of(stage)
    if profile is None:
        return Bound(f"{host.name} has no profile to be held to; `--profile this-machine` names one", basis=Basis.NOTED)
    alike = [machine for machine in profile.nodes if machine.arch is host.arch]
    figures = [figure for machine in alike if rating and (figure := rating.of(machine)) is not None]
    if rating is None or not figures:
        return Bound(f"{profile.name} says nothing of it for {host.arch}", basis=Basis.NOTED)
    least = min(figures, key=lambda figure: rating.shown(figure.value) * (-1 if rating.smaller else 1))
    return bound(profile, rating, least, judged=are_machines_of(stage.cluster.provider, profile))


def osd_memory(stage: Stage, host: Host) -> Bound:
    """The bound of an OSD's resident memory, in MiB: its share of a machine by the profile, with Ceph's room above."""
    profile = profile_of(stage)
    if host.emulated or profile is None:
        why = "an emulator's own memory is in it" if host.emulated else "no profile to be held to"
        return Bound(f"{host.name}: {why}", basis=Basis.NOTED)
    alike = [memory.osd_bytes(machine) for machine in profile.nodes if machine.arch is host.arch and machine.osds]
    if not alike:
        return Bound(f"{profile.name} has no OSDs on {host.arch}", basis=Basis.NOTED)
    most = max(alike) * memory.OVER / MIB
    source = f"{profile.name}: {max(alike) / MIB:.6g} MiB [{memory.SOURCE}], times {memory.OVER:g}"
    if not are_machines_of(stage.cluster.provider, profile):
        return Bound(f"{source}; the host is not one of its machines", basis=Basis.NOTED)
    return Bound(source, most=most, basis=Basis.PROFILE)


def bound(profile: Profile, rating: Rating, figure: Figure, *, judged: bool) -> Bound:
    """The bound from a profile's figure: a limit where judged, else the figure to compare with."""
    rated = rating.shown(figure.value)
    source = f"{profile.name}: {rated:.6g} [{figure.source}]"
    if not judged:
        return Bound(f"{source}; the host is not one of its machines", basis=Basis.NOTED)
    if rating.smaller:
        return Bound(f"{source}, times {SLACK:g}", most=rated * SLACK, basis=Basis.PROFILE)
    return Bound(f"{source}, over {SLACK:g}", least=rated / SLACK, basis=Basis.PROFILE)
