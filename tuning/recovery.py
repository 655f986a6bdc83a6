"""Recovery: how long a cluster takes to copy a lost node's data again, by disks, network and number of backfills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cephlab.lab.base.errors import SpecError
from cephlab.tuning import placement
from cephlab.tuning.ceilings import goodput
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.profile import Disks, Figure, MachineClass, Profile
from cephlab.tuning.units import Measure, show, terabytes
from cephlab.tuning.workload import Shape

SOURCE = "BlueStore copies whole objects; osd_max_backfills reservations are taken on the sending and the receiving OSD"
OBJECT_BYTES = 4.0 * (1 << 20)
"""RBD objects and gateway stripes have this size by default."""

MATCHED = 0.5
"""Least share of the reservations that OSDs hold while backfills wait, when each OSD sends and receives. A backfill
takes one on either side as it comes, and a matching to which none can be added has at least half of the most."""

SLEEP_S = {False: 0.0, True: 0.1}
"""osd_recovery_sleep_ssd and osd_recovery_sleep_hdd, Ceph's defaults: a backfill's pause after each object."""


@dataclass(frozen=True)
class Recovery:
    """seconds: to copy all; limit: what decides it; derivation: with its numbers."""

    seconds: float
    limit: str
    derivation: Derivation


def recovery_time(
    profile: Profile,
    data_bytes: float,
    *,
    nodes_lost: int = 1,
    nodes: int | None = None,
    share: float = 1.0,
    k: int = 0,
) -> Recovery:
    """Time until new nodes hold the data of `nodes_lost` nodes, whichever; SpecError when no node would be left.

    Nodes without OSDs do not count. data_bytes: on each lost one; with an erasure code of k in shards, each of which is
    computed from k others. nodes: of the cluster, None: as in the profile, its classes in proportion. share: part of
    disks and network that recovery gets; clients have the rest. Each rate below is a bound and the lowest decides,
    taken for the class of nodes that takes data in slowest and for the class that reads and sends its part slowest.
    """
    hosts = placement.hosts(profile)
    whole = nodes or hosts
    _refuse_none_left(nodes_lost, whole)
    left = [(machine, machine.count * (whole - nodes_lost) / hosts) for machine in _carrying(profile)]
    new: _Machines = [(machine, nodes_lost) for machine in _carrying(profile)]
    known = _into(profile, new, share, k or 1) | _out_of(profile, left, share, k or 1)
    return _by_slowest(data_bytes * nodes_lost, known)


def recovery_of_largest(
    profile: Profile, data_bytes: float, *, nodes_lost: int = 1, share: float = 1.0, k: int = 0
) -> Recovery:
    """As `recovery_time`, when the largest nodes are lost and new ones of their kind take their place."""
    _refuse_none_left(nodes_lost, placement.hosts(profile))
    rest = placement.without_largest(profile, nodes_lost)
    left: _Machines = [(machine, machine.count) for machine in _carrying(rest)]
    least = min(machine.weight for machine in _carrying(profile) if machine not in rest.nodes)
    new: _Machines = [(machine, nodes_lost) for machine in _carrying(profile) if machine.weight >= least]
    known = _into(profile, new, share, k or 1) | _out_of(profile, left, share, k or 1)
    return _by_slowest(data_bytes * nodes_lost, known)


def refuse_more_than_a_node(profile: Profile, data_bytes: float, given: str) -> None:
    """SpecError where no node's data disks hold so many bytes. given: the key or option that names them."""
    if data_bytes > profile.heaviest:
        raise SpecError(
            f"no node of {profile.name} holds that much",
            f"{given}: got {terabytes(data_bytes)}, wanted: at most {terabytes(profile.heaviest)}, the data disks of "
            "its largest node",
        )


def _refuse_none_left(lost: int, whole: int) -> None:
    if lost >= whole:
        raise SpecError(
            "too many nodes are lost", f"got {lost} of {whole}, wanted: at least one that is left to copy from"
        )


@dataclass(frozen=True)
class InPlace:
    """Recovery of lost nodes' data by those that are left. careful: with what holds it up; ideal: without."""

    careful: Recovery
    ideal: Recovery


def recovery_in_place(
    profile: Profile, data_bytes: float, *, nodes_lost: int, share: float, shape: Shape, uneven: float
) -> InPlace:
    """Time until the nodes that are left have copied the data of the largest ones among themselves.

    The rates are those of `recovery_time`, into all that are left: a node takes in what placement adds to it. By a
    careful estimate a disk reads and writes, and reservations are scarce on both sides. uneven: what the busiest OSD
    takes in over the mean, since it ends last. shape: how objects are protected, with at most one shard on a node.
    """
    rest, shards = placement.without_largest(profile, nodes_lost), shape.k or 1
    into = _into(profile, _taking(profile, rest, shape.copies), share, shards)
    out = _out_of(profile, [(machine, machine.count) for machine in _carrying(rest)], share, shards)
    matched = {"backfills": MATCHED}
    slower = {
        name: replace(
            rate,
            value=rate.value * matched.get(name, 1.0) / uneven,
            how=f"{rate.how}{f' x {MATCHED:g} reserved' if name in matched else ''} / {uneven:.3g} at the busiest OSD",
        )
        for name, rate in into.items()
    }
    known = {name.replace("the new node", "the others"): rate for name, rate in slower.items()} | out
    if {"reading disks", "writing disks"} <= known.keys():
        both = [known.pop(name) for name in ("reading disks", "writing disks")]
        value = 1 / sum(1 / rate.value for rate in both)
        known["disks"] = _Rate("disks", value, " and ".join(f"({rate.how})" for rate in both) + ", in turns")
    whole_bytes = data_bytes * nodes_lost
    return InPlace(_by_slowest(whole_bytes, known), _by_slowest(whole_bytes, into | out))


_Machines = list[tuple[MachineClass, float]]
"""Machines of each class, and how many."""


def _taking(profile: Profile, rest: Profile, copies: int) -> _Machines:
    """For each class that is left, how many machines like one of it would take in all data of the lost ones."""
    names = [machine.name for machine in profile.nodes]
    before = dict(zip(names, placement.copies_held(profile, copies), strict=True))
    after = placement.copies_held(rest, copies)
    more = [(machine, holds - before[machine.name]) for machine, holds in zip(rest.nodes, after, strict=True)]
    whole = sum(machine.count * gain for machine, gain in more)
    return [(machine, whole / gain) for machine, gain in more if gain > 0]


def _by_slowest(whole_bytes: float, known: Mapping[str, _Rate]) -> Recovery:
    """The time for all bytes at the least of the rates."""
    limit = min(known, key=lambda name: known[name].value)
    least = known[limit].value
    seconds = whole_bytes / least
    steps = [
        DerivationStep(f"rate by {name}", rate.how, show(rate.value, Measure.RATE), SOURCE)
        for name, rate in known.items()
    ]
    steps.append(
        DerivationStep(
            "recovery", f"{show(whole_bytes, Measure.BYTES)} / {show(least, Measure.RATE)}", f"{seconds:,.0f} s"
        )
    )
    return Recovery(seconds, limit, Derivation(tuple(steps)))


def _carrying(profile: Profile) -> list[MachineClass]:
    return [machine for machine in profile.nodes if machine.osds]


@dataclass(frozen=True)
class _Rate:
    """value: bytes a second; how: its arithmetic."""

    name: str
    value: float
    how: str


def _slowest(rates: Iterable[_Rate]) -> dict[str, _Rate]:
    """The least of each name; what is not known is left out."""
    least: dict[str, _Rate] = {}
    for rate in rates:
        if rate.value and (rate.name not in least or rate.value < least[rate.name].value):
            least[rate.name] = rate
    return least


def _into(profile: Profile, machines: _Machines, share: float, shards: int) -> dict[str, _Rate]:
    """Rates at which machines take data in, for each class as if so many of it took in all; the slowest class counts.

    shards: how many an object is divided into. A backfill copies one object at a time, and each OSD gets one shard.
    """
    rates: list[_Rate] = []
    size = OBJECT_BYTES / shards
    for machine, number in machines:
        for disks in machine.data_disks:
            part = disks.count * disks.size.value / machine.weight
            osds = disks.count * disks.osds_per_disk
            busy = _object_s(disks, profile, size)
            beside = osds * number * profile.max_backfills
            how = f"{beside:g} at a time x {show(size, Measure.BYTES)} / {show(busy, Measure.TIME)}"
            rates.append(_Rate("backfills", beside * size / busy / part, how))
            rate, disks_there = _written(disks, size), disks.count * number
            how = f"{disks_there:g} {disks.name} x {show(rate, Measure.RATE)} x {share:.4g}"
            rates.append(_Rate("writing disks", rate * disks_there * share / part, how))
        link = (machine.cluster_bandwidth or machine.bandwidth).value * goodput(profile.mtu_bytes)
        how = f"{number:g} {machine.name} x {show(link, Measure.RATE)} x {share:.4g}"
        rates.append(_Rate("network into the new node", link * number * share, how))
    return _slowest(rates)


def _out_of(profile: Profile, left: _Machines, share: float, shards: int) -> dict[str, _Rate]:
    """Rates at which the machines that are left send data.

    Each class reads in proportion to its data. An erasure code reads `shards` shards to rebuild one.
    """
    rates: list[_Rate] = []
    whole = sum(number * machine.weight for machine, number in left)
    for machine, number in left:
        part = number * machine.weight / whole * shards
        for disks in machine.data_disks:
            of_disk = part * disks.count * disks.size.value / machine.weight
            rate = _read(disks, OBJECT_BYTES / shards)
            there = disks.count * number
            how = f"{there:g} {disks.name} x {show(rate, Measure.RATE)} x {share:.4g} / {of_disk:.4g} read per byte"
            rates.append(_Rate("reading disks", rate * there * share / of_disk, how))
        link = (machine.cluster_bandwidth or machine.bandwidth).value * goodput(profile.mtu_bytes)
        how = f"{number:g} {machine.name} x {show(link, Measure.RATE)} x {share:.4g} / {part:.4g} sent per byte"
        rates.append(_Rate("network out of the others", link * number * share / part, how))
    return _slowest(rates)


def _object_s(disks: Disks, profile: Profile, size: float) -> float:
    """Seconds of one backfill for an object's copy or shard: read, send, write, and the pause after it."""
    parts = [size / rate for rate in (_read(disks, size), _written(disks, size)) if rate]
    waits = [figure.value for figure in (disks.read_latency, disks.sync_latency) if figure]
    return sum(parts) + sum(waits) + profile.rtt.value + SLEEP_S[disks.kind.rotates]


def _read(disks: Disks, size: float) -> float:
    return _in_pieces(disks, size, disks.seq_read, disks.read_iops)


def _written(disks: Disks, size: float) -> float:
    return _in_pieces(disks, size, disks.seq_write, disks.write_iops)


def _in_pieces(disks: Disks, size: float, bandwidth: Figure | None, iops: Figure | None) -> float:
    """Bytes a second of one disk in pieces of that size, 0 where nothing is known."""
    if bandwidth is None:
        return 0.0
    # A rotating disk moves its head for each piece. A flash disk has none.
    seek = 1 / iops.value if iops and disks.kind.rotates else 0.0
    return size / (size / bandwidth.value + seek)
