"""Small clusters and demands with round figures, for the tests of the model."""

from collections.abc import Mapping
from dataclasses import replace

from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from cephlab.tuning.profile import DiskKind, DiskRole, Disks, Figure, MachineClass, Profile, Threads
from cephlab.tuning.profilefile import to_toml
from cephlab.tuning.units import Measure


def figure(value: float, kind: Measure) -> Figure:
    return Figure(value, kind, "test")


def disks(
    name: str = "d", *, kind: DiskKind = DiskKind.NVME, role: DiskRole = DiskRole.DATA, count: int = 1, **rated: float
) -> Disks:
    """rated: read_iops, write_iops, seq_read, seq_write, sync_latency, read_latency, shared_link."""
    kinds = {"iops": Measure.OPS, "seq": Measure.RATE, "lat": Measure.TIME, "link": Measure.RATE}
    given = {key: figure(value, next(k for part, k in kinds.items() if part in key)) for key, value in rated.items()}
    return Disks(name, kind, count, figure(1e12, Measure.BYTES), role, **given)  # type: ignore[arg-type]


def machine(
    name: str = "n",
    *,
    count: int = 3,
    cores: int = 10,
    speed: float = 1.0,
    bandwidth: float = 1e12,
    threads_per_core: int = 1,
    gateways: int = 0,
    disk: tuple[Disks, ...] = (),
) -> MachineClass:
    return MachineClass(
        name=name,
        count=count,
        arch=Arch.X86_64,
        cores=cores,
        threads_per_core=threads_per_core,
        core_speed=figure(speed, Measure.SPEED),
        memory=figure(1e11, Measure.BYTES),
        bandwidth=figure(bandwidth, Measure.RATE),
        disks=disk,
        gateways=gateways,
    )


def profile(
    *nodes: MachineClass, clients_on_nodes: bool = False, rtt_s: float = 0.0001, pgs: int | None = 10**16
) -> Profile:
    """pgs: so many that every OSD has its exact share, unless the test is about that."""
    return Profile(
        name="test",
        title="test",
        nodes=nodes or (machine(disk=(disks(),)),),
        clients=() if clients_on_nodes else (machine("client", count=100),),
        rtt=figure(rtt_s, Measure.TIME),
        mtu_bytes=9000,
        threads=Threads(),
        clients_on_nodes=clients_on_nodes,
        pgs=pgs,
    )


def as_file(made: Profile) -> str:
    """The text of a profile's file, with as many PGs as a file may have: every OSD has nearly its exact share."""
    return to_toml(made if made.pgs is None else replace(made, pgs=min(made.pgs, 10_000_000)))


def demand(
    name: str = "randwrite",
    block_bytes: int = 4096,
    *,
    primary_s: float = 0.0,
    replicas_s: float = 0.0,
    client_s: float = 0.0,
    gateway_s: float = 0.0,
    replicas: int = 3,
    ec: tuple[int, int] = (0, 0),
    threads: Mapping[Role, Mapping[str, float]] | None = None,
    writes: float = 0.0,
    write_bytes: float = 0.0,
    core_speed: float = 1.0,
    emulated: bool = False,
) -> Demand:
    """CPU seconds, all of user mode; writes: of the primary's device."""
    spent = {Role.PRIMARY: primary_s, Role.REPLICA: replicas_s, Role.CLIENT: client_s, Role.GATEWAY: gateway_s}
    costs = {role: {Resource.CPU_USER_S: Interval(s, s, s, 1)} for role, s in spent.items() if s}
    if writes:
        costs.setdefault(Role.PRIMARY, {})[Resource.DEVICE_WRITES] = Interval(writes, writes, writes, 1)
        costs[Role.PRIMARY][Resource.DEVICE_WRITE_BYTES] = Interval(write_bytes, write_bytes, write_bytes, 1)
    return Demand(
        operation=Operation(name, block_bytes, 16, replicas, *ec),
        release="reef",
        arch=Arch.X86_64,
        image="test",
        costs=costs,
        threads=threads or {},
        core_speed=core_speed,
        emulated=emulated,
    )
