"""Bounds of a host's speed from a profile: a limit on the profile's own machines, elsewhere a figure for comparison."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.machines import are_machines_of, is_client, profile_of
from cephlab.tuning import memory
from cephlab.tuning.profile import Disks, Figure, MachineClass, Profile

SLACK = 2.0
"""Factor by which a machine may miss its profile. The model promises its figures within a factor of two, so it does not
hold for a machine that misses its own profile by more. The factor also covers other load on a shared machine."""


@dataclass(frozen=True)
class Rating:
    """One figure of a profile. of: its values for one machine, for each kind of disk its own, None if not known.

    shown: converts it to the suite's unit; smaller: less is better; what: to say that a profile does not have it.
    """

    of: Callable[[MachineClass], Sequence[Figure | None]]
    shown: Callable[[float], float]
    smaller: bool = False
    what: str = "such figure"


@dataclass(frozen=True)
class Port:
    """A machine with its address on a network. bonded: whether several links carry it."""

    host: Host
    address: str
    bonded: bool = False


def _disk(pick: Callable[[Disks], Figure | None]) -> Callable[[MachineClass], Sequence[Figure | None]]:
    return lambda machine: [pick(disks) for disks in machine.data_disks]


def _mib(bytes_s: float) -> float:
    return bytes_s / MIB


SYNC_WRITES = Rating(_disk(lambda disks: disks.sync_latency), lambda seconds: 1 / seconds)
SYNC_LATENCY = Rating(_disk(lambda disks: disks.sync_latency), lambda seconds: seconds * 1e3, smaller=True)
SEQUENTIAL = {
    "write": Rating(_disk(lambda disks: disks.seq_write), _mib),
    "read": Rating(_disk(lambda disks: disks.seq_read), _mib),
}


def _link(machine: MachineClass) -> Sequence[Figure]:
    """One link. `--set` may make all links together narrower than one was."""
    return [_narrower(machine.bandwidth, machine.link_bandwidth)]


def _between_osds(machine: MachineClass) -> Sequence[Figure]:
    return [_narrower(machine.cluster_bandwidth or machine.bandwidth, machine.link_bandwidth)]


def _narrower(figure: Figure, link: Figure | None) -> Figure:
    return link if link and link.value < figure.value else figure


def _mbit(bytes_s: float) -> float:
    return bytes_s * 8 / 1e6


NETWORK = Rating(lambda machine: [machine.bandwidth], _mbit)
_LINK = {False: Rating(_link, _mbit), True: Rating(_between_osds, _mbit)}
"""Of one stream: between any two machines, and over a network of the OSDs' own."""
CHECKSUM = Rating(lambda machine: [machine.crc32c], _mib)
ERASURE_ENCODE = Rating(lambda machine: [machine.ec_encode], _mib)
_UNRATED = Rating(lambda machine: [], lambda value: value)


def speed(stage: Stage, host: Host, rating: Rating | None = None) -> Bound:
    """The bound of a speed on a host. rating: None for a speed that profiles do not have.

    There is no limit for an emulated host, nor without a profile: other programs share the machine.
    """
    return _slowest(stage, [[(host, rating or _UNRATED)]])


def stream_speed(stage: Stage, senders: Sequence[Port], receiver: Port, *, between_osds: bool = False) -> Bound:
    """The bound of what hosts send to another, one stream each: that of the slower end, or of the uplink between both.

    A stream uses one link, several streams all links of their receiver. between_osds: over a network of the OSDs' own.
    There is no limit if one host's figure is not known, because that host may be the slowest.
    """
    ends = [[(port.host, _of_stream(port, between_osds)) for port in senders]]
    ends.append([(receiver.host, NETWORK if len(senders) > 1 else _of_stream(receiver, between_osds))])
    return _slowest(stage, ends)


def _of_stream(port: Port, between_osds: bool) -> Rating:
    """The rating of one stream. Of a bond the profile must say it, because the sum may be of any number of links."""
    rating = _LINK[between_osds]
    if not port.bonded:
        return rating
    what = "link_bandwidth, of one link of a bond,"
    return replace(rating, of=lambda machine: rating.of(machine) if machine.link_bandwidth else [None], what=what)


def _slowest(stage: Stage, ends: Sequence[Sequence[tuple[Host, Rating]]]) -> Bound:
    """The bound of the slowest end. ends: hosts whose figures add up; all figures have the same unit."""
    hosts, rating = [host for end in ends for host, _ in end], ends[0][0][1]
    for host in hosts:
        if host.emulated:
            return Bound(f"{host.name} is emulated, so its speed is not judged", basis=Basis.NOTED)
    profile = profile_of(stage)
    if profile is None:
        return Bound(f"no profile to judge {hosts[0].name} by; `--profile this-machine` names one", basis=Basis.NOTED)
    clients = {host.name for host in hosts if is_client(stage.cluster, host.name)}
    # An uplink is between clients and nodes, so not between two of a kind.
    rated = [profile.uplink] if profile.uplink and 0 < len(clients) < len(hosts) else []
    for end in ends:
        figures: list[Figure] = []
        for host, of_host in end:
            figure = _figure(profile, host, of_host, client=host.name in clients)
            if figure is None:
                lacks = f"{profile.name} has no {of_host.what} for {host.name} ({host.arch})"
                return Bound(lacks, basis=Basis.NOTED)
            figures.append(figure)
        rated.append(_sum(figures))
    return bound(profile, rating, _least(rated, rating), judged=are_machines_of(stage.cluster.provider, profile))


def _figure(profile: Profile, host: Host, rating: Rating, *, client: bool) -> Figure | None:
    """What a profile says of the slowest machine that the host can be: a client, or a node.

    None if the figure of one of them is not known, because that one may be the slowest.
    """
    machines = profile.clients if client and profile.clients else profile.nodes
    figures = [figure for machine in machines if machine.arch is host.arch for figure in rating.of(machine)]
    known = [figure for figure in figures if figure is not None]
    return _least(known, rating) if known and len(known) == len(figures) else None


def _least(figures: Sequence[Figure], rating: Rating) -> Figure:
    return min(figures, key=lambda figure: rating.shown(figure.value) * (-1 if rating.smaller else 1))


def _sum(figures: Sequence[Figure]) -> Figure:
    sources = dict.fromkeys(figure.source for figure in figures)
    return replace(figures[0], value=sum(figure.value for figure in figures), source="; ".join(sources))


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
