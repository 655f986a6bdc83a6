"""Ceilings: the most operations a second that each resource of a profile allows, whatever the others do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tuning import daemons, imbalance, mechanics, placement
from tuning.derivation import Step
from tuning.placement import Load
from tuning.profile import Disks, Figure, Machine, Profile
from tuning.units import Kind, show
from tuning.work import Work
from tuning.workload import Flow

UTILISATION_LAW = "utilisation law U = X D, so X <= 1 / D (Denning and Buzen 1978)"
_FRAME_BYTES = 38  # Ethernet header, checksum, preamble and gap
_HEADERS_BYTES = 52  # IPv4 and TCP with timestamps, inside the MTU
_SMALL_BYTES = 4096.0
_EXTENT_BYTES = 4.0 * (1 << 20)
_META_READS = 1.0


class CeilingKind(StrEnum):
    """What kind of thing is limited; threads of a daemon take part in no queue of the hardware."""

    CPU = "cpu"
    THREADS = "threads"
    DEVICE = "device"
    NETWORK = "network"


@dataclass(frozen=True)
class Ceiling:
    """One resource. seconds: an operation keeps all its servers busy for this long; copies: equal resources like it.

    uneven: load of the busiest of them over their mean.
    """

    name: str
    seconds: float
    servers: int
    step: Step
    kind: CeilingKind
    copies: int = 1
    uneven: float = 1.0

    @property
    def busiest_s(self) -> float:
        """`seconds` of the busiest of the copies."""
        return self.seconds * self.uneven

    @property
    def ops(self) -> float:
        """Operations a second."""
        return 1 / self.busiest_s


def ceilings(profile: Profile, work: Work) -> tuple[Ceiling, ...]:
    """Every resource that the profile and the demand can speak of, the tightest first."""
    found: list[Ceiling] = []
    for load in placement.loads(profile, work.shape):
        found += _cpu(load, work)
        found += _pools(profile, load, work)
        found += _disks(profile, load, work)
        found += _network(profile, load, work)
    found += _clients(profile, work)
    if profile.uplink:
        amount = work.shape.block_bytes + work.client.wire / 2
        bandwidth = profile.uplink.value * goodput(profile.mtu_bytes)
        how = f"{profile.uplink} x {goodput(profile.mtu_bytes):.3f} / {show(amount, Kind.BYTES)} per operation"
        found += _made(
            CeilingKind.NETWORK, "uplink between clients and cluster", amount / bandwidth, 1, how, UTILISATION_LAW
        )
    return tuple(sorted(found, key=lambda ceiling: ceiling.ops))


def _made(
    kind: CeilingKind,
    name: str,
    seconds: float,
    servers: int,
    how: str,
    source: str,
    *,
    copies: int = 1,
    uneven: float = 1.0,
) -> Iterator[Ceiling]:
    if seconds > 0:
        step = Step(f"ceiling of {name}", how, f"{1 / (seconds * uneven):,.0f} ops/s", source)
        yield Ceiling(name, seconds, servers, step, kind, copies, uneven)


def _cpu(load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    replicas = placement.replica_share(load, work.shape)
    points = load.primary * work.primary.cpu + replicas * work.replica.cpu
    parts = [
        f"{load.primary:.3f} x {work.primary.cpu * 1e3:.3f} led",
        f"{replicas:.3f} x {work.replica.cpu * 1e3:.3f} copied",
    ]
    if work.gateway and load.gateway:
        points += load.gateway * work.gateway.cpu
        parts.append(f"{load.gateway:.3f} x {work.gateway.cpu * 1e3:.3f} gateway")
    if load.client:
        points += load.client * work.client.cpu
        parts.append(f"{load.client:.3f} x {work.client.cpu * 1e3:.3f} client")
    how = f"{machine.cores} cores x {machine.core_speed.value:.2f} points / ({' + '.join(parts)} point-ms)"
    name = f"{machine.name}: CPU"
    yield from _made(
        CeilingKind.CPU, name, points / machine.points, machine.cores, how, UTILISATION_LAW, copies=machine.count
    )


def _pools(profile: Profile, load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    if not load.primary:
        return
    replica = placement.replica_share(load, work.shape) / load.primary
    uneven = imbalance.busiest(profile, work.shape)
    for disks in machine.data_disks:
        share = load.primary * disks.size.value / (machine.weight * disks.osds_per_disk)
        for pool in daemons.osd_pools(profile.threads, machine, disks, work, replica=replica):
            name = f"{machine.name}: {pool.name} of an OSD on {disks.name}"
            how = f"{pool.how} / ({share:.4f} of the operations x {uneven:.2f} at the busiest OSD)"
            seconds = share * pool.seconds / pool.threads
            copies = machine.count * disks.count * disks.osds_per_disk
            yield from _made(
                CeilingKind.THREADS, name, seconds, pool.threads, how, daemons.SOURCE, copies=copies, uneven=uneven
            )


def _disks(profile: Profile, load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    copies = load.primary + placement.replica_share(load, work.shape)
    uneven = imbalance.busiest(profile, work.shape)
    for disks in machine.disks:
        data = disks in machine.data_disks
        whole = machine.weight if data else sum(d.count * d.size.value for d in machine.metadata_disks)
        share = copies * disks.size.value / whole
        alone = not machine.metadata_disks
        busy, how = _device_seconds(disks, work, data=data, alone=alone)
        name = f"{machine.name}: disk {disks.name}"
        how = f"1 / ({share:.4f} of the shards x {uneven:.2f} at the busiest x {how})"
        number = machine.count * disks.count
        yield from _made(CeilingKind.DEVICE, name, share * busy, 1, how, UTILISATION_LAW, copies=number, uneven=uneven)
        if disks.shared_link and data:
            bytes_each = copies * work.shape.shard_bytes
            how = f"{disks.shared_link} / {show(bytes_each, Kind.BYTES)} per operation"
            name = f"{machine.name}: link to {disks.name}"
            yield from _made(
                CeilingKind.DEVICE,
                name,
                bytes_each / disks.shared_link.value,
                1,
                how,
                UTILISATION_LAW,
                copies=machine.count,
            )


def _device_seconds(disks: Disks, work: Work, *, data: bool, alone: bool) -> tuple[float, str]:
    """Time that one shard keeps a device busy: each I/O at the rated IOPS, bytes beyond 4 KiB each at the bandwidth."""
    shard = work.shape.shard_bytes
    if work.shape.flow is Flow.READ:
        count = (1 - work.shape.hit_ratio) * (max(1.0, shard / _EXTENT_BYTES) if data else _META_READS)
        size = count * (shard / max(1.0, shard / _EXTENT_BYTES) if data else _SMALL_BYTES)
        return _affine(count, size, mechanics.read_iops(disks, work.shape), disks.seq_read)
    count, size = _writes(work, data=data, alone=alone)
    return _affine(count, size, disks.write_iops.value if disks.write_iops else 0.0, disks.seq_write)


def _writes(work: Work, *, data: bool, alone: bool) -> tuple[float, float]:
    """(operations, bytes) of one shard on its data device or on its metadata device.

    Measured together on one device; of those, one write for each extent of data, and its bytes, belong to the data.
    """
    shape = work.shape
    copies = shape.copies
    count = max(1.0, (work.primary.writes + (copies - 1) * work.replica.writes) / copies)
    size = max(shape.shard_bytes, (work.primary.write_bytes + (copies - 1) * work.replica.write_bytes) / copies)
    if alone:
        return count, size
    data_count = max(1.0, shape.shard_bytes / _EXTENT_BYTES)
    if data:
        return data_count, shape.shard_bytes
    return max(0.0, count - data_count), max(0.0, size - shape.shard_bytes)


def _affine(count: float, size: float, iops: float, bandwidth: Figure | None) -> tuple[float, str]:
    seconds, parts = 0.0, []
    if iops:
        seconds += count / iops
        parts.append(f"{count:.2f} I/O at {iops:,.0f} IOPS")
    beyond = max(0.0, size - count * _SMALL_BYTES) if iops else size
    if bandwidth and beyond:
        seconds += beyond / bandwidth.value
        parts.append(f"{show(beyond, Kind.BYTES)} at {bandwidth}")
    return seconds, f"({' + '.join(parts)})"


def goodput(mtu_bytes: int) -> float:
    """Payload share of an Ethernet link that carries TCP: (MTU - 52) / (MTU + 38)."""
    return (mtu_bytes - _HEADERS_BYTES) / (mtu_bytes + _FRAME_BYTES)


def _network(profile: Profile, load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    bytes_through = placement.wire(load, work)
    share = goodput(profile.mtu_bytes)
    back = (bytes_through.back_in, bytes_through.back_out)
    front = (bytes_through.front_in, bytes_through.front_out)
    links = [("network", machine.bandwidth.value, front)]
    if machine.cluster_bandwidth:
        links.append(("cluster network", machine.cluster_bandwidth.value, back))
    else:
        links = [("network", machine.bandwidth.value, (front[0] + back[0], front[1] + back[1]))]
    for what, bandwidth, (taken, sent) in links:
        for way, amount in (("in", taken), ("out", sent)):
            how = f"{show(bandwidth, Kind.RATE)} x {share:.3f} / {show(amount, Kind.BYTES)} per operation"
            name = f"{machine.name}: {what} {way}"
            source = "framing: IEEE 802.3, RFC 791, RFC 9293"
            yield from _made(
                CeilingKind.NETWORK, name, amount / (bandwidth * share), 1, how, source, copies=machine.count
            )


def _clients(profile: Profile, work: Work) -> Iterator[Ceiling]:
    machines = profile.nodes if profile.clients_on_nodes else profile.clients
    clients = work.shape.clients
    points = sum(machine.count * machine.points for machine in machines)
    hosts = sum(machine.count for machine in machines)
    if not profile.clients_on_nodes:
        how = f"{points:.0f} points of {hosts} machine(s) / {work.client.cpu * 1e3:.3f} point-ms"
        yield from _made(
            CeilingKind.CPU, "clients: CPU", work.client.cpu / points, hosts * machines[0].cores, how, UTILISATION_LAW
        )
        yield from _client_links(profile, work, min(hosts, clients))
    for pool in daemons.client_pools(machines[0], work):
        name = f"clients: {pool.name} of a client process"
        how = f"{clients} process(es) x {pool.how}"
        yield from _made(
            CeilingKind.THREADS,
            name,
            pool.seconds / pool.threads / clients,
            pool.threads,
            how,
            daemons.SOURCE,
            copies=clients,
        )


def _client_links(profile: Profile, work: Work, hosts: int) -> Iterator[Ceiling]:
    machine: Machine = profile.clients[0]
    amount = work.shape.block_bytes + work.client.wire / 2
    bandwidth = machine.bandwidth.value * goodput(profile.mtu_bytes) * hosts
    how = f"{hosts} x {show(bandwidth / hosts, Kind.RATE)} / {show(amount, Kind.BYTES)} per operation"
    yield from _made(CeilingKind.NETWORK, "clients: network", amount / bandwidth, 1, how, UTILISATION_LAW, copies=hosts)
