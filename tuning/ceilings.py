"""Ceilings: the most operations a second that each resource of a profile allows, whatever the others do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tuning import daemons, devices, imbalance, placement
from tuning.derivation import Step
from tuning.mva import harmonic
from tuning.placement import Load
from tuning.profile import DiskRole, Disks, Machine, Profile
from tuning.units import Kind, show
from tuning.work import Work
from tuning.workload import Shape

UTILISATION_LAW = "utilisation law U = X D, so X <= 1 / D (Denning and Buzen 1978)"
_FRAME_BYTES = 38  # Ethernet header, checksum, preamble and gap
_HEADERS_BYTES = 52  # IPv4 and TCP with timestamps, inside the MTU


class CeilingKind(StrEnum):
    """What kind of thing is limited. BATCHES: threads that do all that waits at once, so that nothing queues there."""

    CPU = "cpu"
    THREADS = "threads"
    BATCHES = "batches"
    DEVICE = "device"
    NETWORK = "network"


@dataclass(frozen=True)
class Ceiling:
    """One resource. seconds: an operation keeps all its servers busy for this long; copies: equal resources like it.

    uneven: load of the busiest of them over their mean. path_s: the part of seconds x copies that the operation itself
    waits through, the slowest of shards beside each other in place of all of them.
    """

    name: str
    seconds: float
    step: Step
    kind: CeilingKind
    copies: float = 1
    uneven: float = 1.0
    path_s: float = 0.0

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
    found += _clients_on_nodes(profile, work) if profile.clients_on_nodes else _clients(profile, work)
    if profile.uplink:
        amount = work.shape.block_bytes + work.client.wire / 2
        bandwidth = profile.uplink.value * goodput(profile.mtu_bytes)
        how = f"{profile.uplink} x {goodput(profile.mtu_bytes):.3f} / {show(amount, Kind.BYTES)} per operation"
        found += _made(CeilingKind.NETWORK, "uplink between clients and cluster", amount / bandwidth, how)
    return tuple(sorted(found, key=lambda ceiling: (ceiling.ops, ceiling.name)))


def _made(
    kind: CeilingKind,
    name: str,
    seconds: float,
    how: str,
    *,
    source: str = UTILISATION_LAW,
    copies: float = 1,
    uneven: float = 1.0,
    path_s: float | None = None,
) -> Iterator[Ceiling]:
    """path_s: None where an operation does nothing beside it, so that it waits for all of it."""
    if seconds > 0:
        step = Step(f"ceiling of {name}", how, f"{1 / (seconds * uneven):,.0f} ops/s", source)
        yield Ceiling(name, seconds, step, kind, copies, uneven, seconds * copies if path_s is None else path_s)


def last_of(beside: int) -> float:
    """What the last of so many shards waits, as a part of what all of them wait together."""
    return harmonic(beside) / beside if beside else 0.0


def _others(shape: Shape) -> int:
    return shape.awaited - 1


def _cpu(load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    replicas = placement.replica_share(load, work.shape)
    led, copied = load.primary * work.primary.cpu, replicas * work.replica.cpu
    parts = [
        f"{load.primary:.3f} x {work.primary.cpu * 1e3:.3f} led",
        f"{replicas:.3f} x {work.replica.cpu * 1e3:.3f} copied",
    ]
    path = led + copied * last_of(_others(work.shape))
    points = led + copied
    for what, share, price in (("gateway", load.gateway, work.gateway), ("client", load.client, work.client)):
        if price and share:
            points += share * price.cpu
            path += share * price.cpu
            parts.append(f"{share:.3f} x {price.cpu * 1e3:.3f} {what}")
    before = placement.reread_share(load, work.shape)
    if work.reread and before:
        points += before * work.reread.cpu
        path += before * work.reread.cpu * last_of(work.shape.k)
        parts.append(f"{before:.3f} x {work.reread.cpu * 1e3:.3f} read before")
    yield from _made(
        CeilingKind.CPU,
        f"{load.name}: CPU",
        points / machine.points,
        f"{machine.cores} cores x {machine.core_speed.value:.2f} points / ({' + '.join(parts)} point-ms)",
        copies=load.count,
        path_s=path / machine.points * load.count,
    )


def _pools(profile: Profile, load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    if not load.primary:
        return
    replica = placement.replica_share(load, work.shape) / load.primary
    before = placement.reread_share(load, work.shape) / load.primary
    uneven = imbalance.busiest(profile, work.shape)
    for disks in machine.data_disks:
        share = load.primary * disks.size.value / (machine.weight * disks.osds_per_disk)
        for pool in daemons.osd_pools(profile.threads, machine, disks, work, replica=replica, before=before):
            seconds = share * pool.seconds / pool.threads
            number = load.count * disks.count * disks.osds_per_disk
            yield from _made(
                CeilingKind.BATCHES if pool.name in daemons.BATCHING else CeilingKind.THREADS,
                f"{load.name}: {pool.name} of an OSD on {disks.name}",
                seconds,
                f"{pool.how} / ({share:.4f} of the operations x {uneven:.2f} at the busiest OSD)",
                source=daemons.SOURCE,
                copies=number,
                uneven=uneven,
                path_s=seconds * number * _waited(pool.name, work, replica),
            )


def _waited(thread: str, work: Work, replica: float) -> float:
    """Part of what an operation costs the threads of that name that it waits for itself, and not beside itself."""
    led, beside = work.primary.threads.get(thread, 0.0), replica * work.replica.threads.get(thread, 0.0)
    return (led + beside * last_of(_others(work.shape))) / (led + beside) if led + beside else 1.0


def _disks(profile: Profile, load: Load, work: Work) -> Iterator[Ceiling]:
    machine = load.machine
    shards = load.primary + placement.replica_share(load, work.shape)
    uneven = imbalance.busiest(profile, work.shape)
    forked = last_of(work.shape.awaited)
    for disks in machine.disks:
        data = disks.role is DiskRole.DATA
        whole = machine.weight if data else sum(d.count * d.size.value for d in machine.metadata_disks)
        share = shards * disks.size.value / whole
        found, number = devices.visit(disks, machine, work), load.count * disks.count
        yield from _made(
            CeilingKind.DEVICE,
            f"{load.name}: disk {disks.name}",
            share * found.busy_s,
            f"1 / ({share:.4f} of the shards x {uneven:.2f} at the busiest x {found.how})",
            copies=number,
            uneven=uneven,
            path_s=share * found.path_s * number * forked,
        )
        if disks.shared_link and data:
            yield from _link(load, disks, shards * work.shape.shard_bytes, forked)


def _link(load: Load, disks: Disks, amount: float, forked: float) -> Iterator[Ceiling]:
    if disks.shared_link:
        seconds = amount / disks.shared_link.value
        yield from _made(
            CeilingKind.DEVICE,
            f"{load.name}: link to {disks.name}",
            seconds,
            f"{disks.shared_link} / {show(amount, Kind.BYTES)} per operation",
            copies=load.count,
            path_s=seconds * load.count * forked,
        )


def goodput(mtu_bytes: int) -> float:
    """Payload share of an Ethernet link that carries TCP: (MTU - 52) / (MTU + 38)."""
    return (mtu_bytes - _HEADERS_BYTES) / (mtu_bytes + _FRAME_BYTES)


def _network(profile: Profile, load: Load, work: Work) -> Iterator[Ceiling]:
    machine, share = load.machine, goodput(profile.mtu_bytes)
    through = placement.wire(load, work)
    both = (
        ("in", through.front_in, through.back_in, through.fork_in),
        ("out", through.front_out, through.back_out, through.fork_out),
    )
    for way, front, back, fork in both:
        beside = fork * (1 - last_of(_others(work.shape)))
        if machine.cluster_bandwidth:
            links = [("network", machine.bandwidth.value, front, 0.0)]
            links.append(("cluster network", machine.cluster_bandwidth.value, back, beside))
        else:
            links = [("network", machine.bandwidth.value, front + back, beside)]
        for what, bandwidth, amount, unseen in links:
            yield from _made(
                CeilingKind.NETWORK,
                f"{load.name}: {what} {way}",
                amount / (bandwidth * share),
                f"{show(bandwidth, Kind.RATE)} x {share:.3f} / {show(amount, Kind.BYTES)} per operation",
                source="framing: IEEE 802.3, RFC 791, RFC 9293",
                copies=load.count,
                path_s=max(0.0, amount - unseen) / (bandwidth * share) * load.count,
            )


def _clients_on_nodes(profile: Profile, work: Work) -> Iterator[Ceiling]:
    """Load generators on the nodes: each asks for as much as any other, so those of the slowest node decide."""
    clients = work.shape.clients
    for machine in profile.nodes:
        for pool in daemons.client_pools(machine, work):
            yield from _process(_named(profile.nodes, machine), pool, clients, 1.0, clients)


def _named(machines: tuple[Machine, ...], machine: Machine) -> str:
    return "clients" if len(machines) == 1 else f"clients on {machine.name}"


def _process(whose: str, pool: daemons.Pool, clients: float, part: float, all_of_them: int) -> Iterator[Ceiling]:
    """One pool of `clients` processes that ask for `part` of the operations."""
    yield from _made(
        CeilingKind.THREADS,
        f"{whose}: {pool.name} of a client process",
        pool.seconds / pool.threads * part / clients,
        f"{clients:.4g} process(es) of {all_of_them} x {pool.how} / {part:.4f} of the operations",
        source=daemons.SOURCE,
        copies=clients,
    )


@dataclass(frozen=True)
class Asker:
    """Client machines of one class. machines: those in use; processes: load generators on them; part: of the load."""

    machine: Machine
    machines: float
    processes: float
    part: float


def askers(profile: Profile, work: Work) -> tuple[Asker, ...]:
    """Load generators are spread evenly over the client machines; none waits for those of another machine.

    So where machines differ, each class does its part of the operations in proportion to the most that it can do.
    """
    clients = work.shape.clients
    hosts = sum(machine.count for machine in profile.clients)
    used = min(1.0, clients / hosts)
    most = [machine.count * _most(profile, machine, work, used, clients / hosts) for machine in profile.clients]
    return tuple(
        Asker(machine, machine.count * used, machine.count * clients / hosts, one / sum(most))
        for machine, one in zip(profile.clients, most, strict=True)
    )


def _most(profile: Profile, machine: Machine, work: Work, used: float, processes: float) -> float:
    """Operations a second of one client machine, `used` of it on average."""
    amount = work.shape.block_bytes + work.client.wire / 2
    limits = [used * machine.bandwidth.value * goodput(profile.mtu_bytes) / amount]
    if work.client.cpu:
        limits.append(used * machine.points / work.client.cpu)
    return min(limits + [processes * pool.ceiling for pool in daemons.client_pools(machine, work)])


def _clients(profile: Profile, work: Work) -> Iterator[Ceiling]:
    amount = work.shape.block_bytes + work.client.wire / 2
    for one in askers(profile, work):
        whose, machine = _named(profile.clients, one.machine), one.machine
        each = one.part / one.machines
        points = f"{one.machines:.4g} machine(s) x {machine.points:.0f} points"
        yield from _made(
            CeilingKind.CPU,
            f"{whose}: CPU",
            each * work.client.cpu / machine.points,
            f"{points} / ({one.part:.4f} of the operations x {work.client.cpu * 1e3:.3f} point-ms)",
            copies=one.machines,
        )
        bandwidth = machine.bandwidth.value * goodput(profile.mtu_bytes)
        yield from _made(
            CeilingKind.NETWORK,
            f"{whose}: network",
            each * amount / bandwidth,
            f"{one.machines:.4g} x {show(bandwidth, Kind.RATE)} / ({one.part:.4f} of the operations x "
            f"{show(amount, Kind.BYTES)})",
            copies=one.machines,
        )
        for pool in daemons.client_pools(machine, work):
            yield from _process(whose, pool, one.processes, one.part, work.shape.clients)
