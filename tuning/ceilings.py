"""Ceilings: the most operations a second that each resource of a profile allows, whatever the others do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cephlab.lab.base.numbers import how_many
from cephlab.tuning import daemons, devices, imbalance, memory, placement
from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.mva import harmonic
from cephlab.tuning.placement import MachineLoad
from cephlab.tuning.profile import DiskRole, Disks, MachineClass, Profile
from cephlab.tuning.units import Measure, show
from cephlab.tuning.work import OperationWork
from cephlab.tuning.workload import Flow, Shape

UTILISATION_LAW = "utilisation law U = X D, so X <= 1 / D (Denning and Buzen 1978)"
NVMEOF_OPS = {Flow.WRITE: 50_000.0, Flow.READ: 65_000.0}
"""Operations of NVMEOF_BYTES a second for each polling core of an NVMe-oF gateway. For reads: the middle of 60 to 70
thousand."""
NVMEOF_BYTES = 4096
NVMEOF_SOURCE = "Ceph SPDK NVMe-oF gateway: performance analysis on Kunpeng 920, 2025, case 2"
_FRAME_BYTES = 38  # Ethernet header, checksum, preamble and gap
_HEADERS_BYTES = 52  # IPv4 and TCP with timestamps, inside the MTU


@dataclass(frozen=True)
class Ceiling:
    """One class of equal resources.

    seconds: how long an operation keeps one of them busy, on average; copies: how many there are; among: how many there
    are in all classes. uneven: load of the busiest of these over the mean. path_s: the part of seconds x copies that
    the operation waits for. Of parallel shards it waits for the slowest, not for their sum. batches: threads that take
    everything that waits in one go, so that no queue forms there.
    """

    name: str
    seconds: float
    step: DerivationStep
    copies: float
    uneven: float
    path_s: float
    batches: bool
    among: float

    @property
    def busiest_s(self) -> float:
        """`seconds` of the busiest of the copies."""
        return self.seconds * self.uneven

    @property
    def ops(self) -> float:
        """Operations a second."""
        return 1 / self.busiest_s


def ceilings(profile: Profile, work: OperationWork) -> tuple[Ceiling, ...]:
    """A ceiling for every resource that profile and demand describe, the tightest first."""
    known: list[Ceiling] = []
    for load in placement.loads(profile, work.shape):
        known += _cpu(load, work)
        known += _pools(profile, load, work)
        known += _disks(profile, load, work)
        known += _network(profile, load, work)
        known += _memory(load.name, load.machine, load.count, memory.moved(load, work))
    known += _clients_on_nodes(profile, work) if profile.clients_on_nodes else _clients(profile, work)
    known += _nvmeof(profile, work)
    if profile.uplink:
        # The measured bytes beyond the payload are those of both directions together: half of them go one way.
        amount = work.shape.payload_bytes + work.client.wire / 2
        bandwidth = profile.uplink.value * goodput(profile.mtu_bytes)
        how = f"{profile.uplink} x {goodput(profile.mtu_bytes):.3f} / {show(amount, Measure.BYTES)} per operation"
        known += _made("uplink between clients and cluster", amount / bandwidth, how)
    return tuple(sorted(known, key=lambda ceiling: (ceiling.ops, ceiling.name)))


@dataclass(frozen=True)
class _Servers:
    """Fields as in Ceiling. path_s: None: the operation waits for all of its work there, none of it in parallel.

    among: 0: there are no others.
    """

    copies: float = 1
    uneven: float = 1.0
    path_s: float | None = None
    batches: bool = False
    among: float = 0.0


_ONE = _Servers()


def _made(
    name: str, seconds: float, how: str, servers: _Servers = _ONE, *, source: str = UTILISATION_LAW
) -> Iterator[Ceiling]:
    if seconds <= 0:
        return
    step = DerivationStep(f"ceiling of {name}", how, f"{1 / (seconds * servers.uneven):,.0f} ops/s", source)
    path_s = seconds * servers.copies if servers.path_s is None else servers.path_s
    among = servers.among or servers.copies
    yield Ceiling(name, seconds, step, servers.copies, servers.uneven, path_s, servers.batches, among)


def mixed(parts: Sequence[tuple[float, Sequence[Ceiling]]]) -> tuple[Ceiling, ...]:
    """Ceilings of operations of several kinds in fixed shares: each resource is kept busy by the sum of its parts."""
    if len(parts) == 1:
        return tuple(parts[0][1])
    named: dict[str, list[tuple[float, Ceiling]]] = {}
    for share, limits in parts:
        for ceiling in limits:
            named.setdefault(ceiling.name, []).append((share, ceiling))
    return tuple(sorted(map(_mixed, named.values()), key=lambda ceiling: (ceiling.ops, ceiling.name)))


def _mixed(parts: list[tuple[float, Ceiling]]) -> Ceiling:
    seconds = sum(share * ceiling.seconds for share, ceiling in parts)
    busiest = sum(share * ceiling.busiest_s for share, ceiling in parts)
    how = " + ".join(f"{share:.2f} x {show(ceiling.busiest_s, Measure.TIME)}" for share, ceiling in parts)
    first = parts[0][1]
    return replace(
        first,
        seconds=seconds,
        uneven=busiest / seconds,
        path_s=sum(share * ceiling.path_s for share, ceiling in parts),
        step=DerivationStep(f"ceiling of {first.name}", f"1 / ({how})", f"{1 / busiest:,.0f} ops/s", UTILISATION_LAW),
    )


def last_of(beside: int) -> float:
    """How long the last of `beside` parallel shards takes, as a share of the sum of all.

    The longest of k exponential times is H(k) times their mean (Nelson and Tantawi 1988), and their sum k times.
    """
    return harmonic(beside) / beside if beside else 0.0


def _others(shape: Shape) -> int:
    return shape.awaited - 1


def _cpu(load: MachineLoad, work: OperationWork) -> Iterator[Ceiling]:
    machine = load.machine
    replicas = placement.replica_share(load, work.shape)
    led, copied = load.primary * work.primary.cpu, replicas * work.replica.cpu
    parts = [
        f"{load.primary:.3f} x {work.primary.cpu * 1e3:.3f} primary",
        f"{replicas:.3f} x {work.replica.cpu * 1e3:.3f} replica",
    ]
    # The operation waits for all of the primary's work. Replicas work in parallel: only the last of them counts.
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
        f"{load.name}: CPU",
        points / machine.points,
        f"{machine.cores} cores x {machine.core_speed.value:.2f} points / ({' + '.join(parts)} point-ms)",
        _Servers(copies=load.count, path_s=path / machine.points * load.count),
    )
    if machine.osd_threads:
        # Threads are pinned to different cores first, and a thread alone on its core is faster.
        usable = min(machine.points, machine.osd_threads * daemons.thread_speed(machine))
        osds = led + copied + (before * work.reread.cpu if work.reread else 0.0)
        how = f"{machine.osd_threads} threads, {usable:.0f} points / {osds * 1e3:.3f} point-ms"
        # The time that an operation waits is part of the machine's CPU ceiling already.
        yield from _made(f"{load.name}: CPU of its OSDs", osds / usable, how, _Servers(copies=load.count, path_s=0.0))


def _pools(profile: Profile, load: MachineLoad, work: OperationWork) -> Iterator[Ceiling]:
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
                f"{load.name}: {pool.name} of an OSD on {disks.name}",
                seconds,
                f"{pool.how} / ({share:.4f} of the operations x {uneven:.2f} at the busiest OSD)",
                _Servers(
                    copies=number,
                    uneven=uneven,
                    path_s=seconds * number * _waited(pool.name, work, replica),
                    batches=pool.name in daemons.BATCHING,
                    among=profile.osds,
                ),
                source=daemons.SOURCE,
            )


def _waited(thread: str, work: OperationWork, replica: float) -> float:
    """Share of an operation's work in threads of that name that the operation waits for: replicas work in parallel."""
    led, beside = work.primary.threads.get(thread, 0.0), replica * work.replica.threads.get(thread, 0.0)
    return (led + beside * last_of(_others(work.shape))) / (led + beside) if led + beside else 1.0


def _disks(profile: Profile, load: MachineLoad, work: OperationWork) -> Iterator[Ceiling]:
    machine = load.machine
    shards = load.primary + placement.replica_share(load, work.shape)
    # Every shard, the primary's too, is on a disk of its own, and the operation ends with the last of them.
    forked = last_of(work.shape.awaited)
    for disks in machine.disks:
        data = disks.role is DiskRole.DATA
        whole = machine.weight if data else sum(d.count * d.size.value for d in machine.metadata_disks)
        share = shards * disks.size.value / whole
        visit, number = devices.visit(disks, machine, work), load.count * disks.count
        sharing = _sharing(machine, disks)
        uneven, path_s = imbalance.busiest(profile, work.shape, sharing), share * visit.path_s * number * forked
        yield from _made(
            f"{load.name}: disk {disks.name}",
            share * visit.busy_s,
            f"1 / ({share:.4f} of the shards x {uneven:.2f} at the busiest x {visit.how})",
            _Servers(copies=number, uneven=uneven, path_s=path_s, among=profile.osds / sharing),
        )
        if data:
            yield from _link(load, disks, share * disks.count * work.shape.shard_bytes, forked)


def _sharing(machine: MachineClass, disks: Disks) -> float:
    """OSDs that share one of these disks: their PGs together are more, and so more even, than those of one OSD."""
    if disks.role is DiskRole.DATA:
        return disks.osds_per_disk
    return max(1.0, machine.osds / sum(metadata.count for metadata in machine.metadata_disks))


def _link(load: MachineLoad, disks: Disks, amount: float, forked: float) -> Iterator[Ceiling]:
    if disks.shared_link:
        seconds = amount / disks.shared_link.value
        yield from _made(
            f"{load.name}: link to {disks.name}",
            seconds,
            f"{disks.shared_link} / {show(amount, Measure.BYTES)} per operation",
            _Servers(copies=load.count, path_s=seconds * load.count * forked),
        )


def goodput(mtu_bytes: int) -> float:
    """Payload share of an Ethernet link that carries TCP: (MTU - 52) / (MTU + 38)."""
    return (mtu_bytes - _HEADERS_BYTES) / (mtu_bytes + _FRAME_BYTES)


def _network(profile: Profile, load: MachineLoad, work: OperationWork) -> Iterator[Ceiling]:
    machine, share = load.machine, goodput(profile.mtu_bytes)
    through = placement.wire(load, work)
    both = (
        ("in", through.front_in, through.back_in, through.fork_in),
        ("out", through.front_out, through.back_out, through.fork_out),
    )
    for way, front, back, fork in both:
        # The traffic of parallel shards keeps the link busy, but the operation waits only for the last shard.
        beside = fork * (1 - last_of(_others(work.shape)))
        if machine.cluster_bandwidth:
            links = [("network", machine.bandwidth.value, front, 0.0)]
            links.append(("cluster network", machine.cluster_bandwidth.value, back, beside))
        else:
            links = [("network", machine.bandwidth.value, front + back, beside)]
        for what, bandwidth, amount, unseen in links:
            yield from _made(
                f"{load.name}: {what} {way}",
                amount / (bandwidth * share),
                f"{show(bandwidth, Measure.RATE)} x {share:.3f} / {show(amount, Measure.BYTES)} per operation",
                _Servers(copies=load.count, path_s=(amount - unseen) / (bandwidth * share) * load.count),
                source="framing: IEEE 802.3, RFC 791, RFC 9293",
            )


def _nvmeof(profile: Profile, work: OperationWork) -> Iterator[Ceiling]:
    shape = work.shape
    if profile.nvmeof_cores and at_a_gateway(shape):
        ops = NVMEOF_OPS[shape.flow]
        cores = profile.nvmeof_cores
        yield from _made(
            "NVMe-oF gateways: cores that poll",
            1 / (ops * cores),
            f"{cores} cores x {ops:,.0f} ops/s",
            _Servers(copies=cores),
            source=NVMEOF_SOURCE,
        )


def at_a_gateway(shape: Shape) -> bool:
    """Whether the cost of an operation at an NVMe-oF gateway is known. It is for 4 KiB operations on an image only."""
    return not shape.through_gateway and shape.block_bytes == NVMEOF_BYTES


def _memory(whose: str, machine: MachineClass, count: float, moved_bytes: float) -> Iterator[Ceiling]:
    if machine.memory_bandwidth:
        how = f"{machine.memory_bandwidth} / {show(moved_bytes, Measure.BYTES)} per operation"
        # The time that an operation waits for memory is part of its CPU seconds already.
        servers = _Servers(copies=count, path_s=0.0)
        seconds = moved_bytes / machine.memory_bandwidth.value
        yield from _made(f"{whose}: memory bandwidth", seconds, how, servers, source=memory.TRAFFIC_SOURCE)


def _clients_on_nodes(profile: Profile, work: OperationWork) -> Iterator[Ceiling]:
    """Load generators, spread evenly over the nodes. All do the same share, so those on the slowest node decide."""
    clients = work.shape.clients
    for machine in profile.nodes:
        part = machine.count / profile.node_count
        for pool in daemons.client_pools(machine, work):
            yield from _process(_named(profile.nodes, machine), pool, clients * part, part, clients)


def _named(machines: tuple[MachineClass, ...], machine: MachineClass) -> str:
    return "clients" if len(machines) == 1 else f"clients on {machine.name}"


def _process(whose: str, pool: daemons.ThreadPool, clients: float, part: float, all_of_them: int) -> Iterator[Ceiling]:
    """One thread pool of `clients` processes that do `part` of the operations."""
    yield from _made(
        f"{whose}: {pool.name} of a client process",
        pool.seconds / pool.threads * part / clients,
        f"{how_many(clients, 'process', 'processes')} of {all_of_them} x {pool.how} / {part:.4f} of the operations",
        _Servers(copies=clients),
        source=daemons.SOURCE,
    )


@dataclass(frozen=True)
class Asker:
    """Client machines of one class. machines: those in use; processes: load generators; part: of the load."""

    machine: MachineClass
    machines: float
    processes: float
    part: float


def askers(profile: Profile, work: OperationWork) -> tuple[Asker, ...]:
    """The load generators, spread evenly over the client machines. None waits for one of another machine.

    So where machines differ, each class does a part of the operations in proportion to the most that it can do.
    """
    clients = work.shape.clients
    hosts = sum(machine.count for machine in profile.clients)
    used = min(1.0, clients / hosts)
    most = [machine.count * _most(profile, machine, work, used, clients / hosts) for machine in profile.clients]
    return tuple(
        Asker(machine, machine.count * used, machine.count * clients / hosts, best / sum(most))
        for machine, best in zip(profile.clients, most, strict=True)
    )


def _most(profile: Profile, machine: MachineClass, work: OperationWork, used: float, processes: float) -> float:
    """Operations a second of one client machine, `used` of it on average."""
    amount = work.shape.payload_bytes + work.client.wire / 2
    limits = [used * machine.bandwidth.value * goodput(profile.mtu_bytes) / amount] if amount else []
    if work.client.cpu:
        limits.append(used * machine.points / work.client.cpu)
    if machine.memory_bandwidth and amount:
        limits.append(used * machine.memory_bandwidth.value / memory.linked(amount))
    # Where no limit is known, all machines count the same.
    return min([*limits, *(processes * pool.ceiling for pool in daemons.client_pools(machine, work))], default=1.0)


def _clients(profile: Profile, work: OperationWork) -> Iterator[Ceiling]:
    amount = work.shape.payload_bytes + work.client.wire / 2
    for asker in askers(profile, work):
        whose, machine = _named(profile.clients, asker.machine), asker.machine
        each = asker.part / asker.machines
        points = f"{how_many(asker.machines, 'machine')} x {machine.points:.0f} points"
        yield from _made(
            f"{whose}: CPU",
            each * work.client.cpu / machine.points,
            f"{points} / ({asker.part:.4f} of the operations x {work.client.cpu * 1e3:.3f} point-ms)",
            _Servers(copies=asker.machines),
        )
        bandwidth = machine.bandwidth.value * goodput(profile.mtu_bytes)
        yield from _made(
            f"{whose}: network",
            each * amount / bandwidth,
            f"{asker.machines:.4g} x {show(bandwidth, Measure.RATE)} / ({asker.part:.4f} of the operations x "
            f"{show(amount, Measure.BYTES)})",
            _Servers(copies=asker.machines),
        )
        yield from _memory(whose, machine, asker.machines, memory.linked(each * amount))
        for pool in daemons.client_pools(machine, work):
            yield from _process(whose, pool, asker.processes, asker.part, work.shape.clients)
