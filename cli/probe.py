"""`cephlab probe`: measures this machine and writes it down as a profile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psutil
import typer

from cli.measure import parse_bytes
from cli.output import JsonOption, reporting
from cli.signals import interruptible
from cli.world import World, world_of
from lab.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.rates import Rates
    from tuning.profile import Disks, Figure, Machine, Profile

_LEAST_BYTES = 64 << 20
_NETWORK_S = 3.0
_CODE = "ceph_erasure_code_benchmark, isa, 4+2, 4 MiB"
_OSDS = 3
_LOOPBACK_MTU = 65536


def probe(
    ctx: typer.Context,
    *,
    disk: Annotated[Path, typer.Option("--disk", help="A folder on the disk to measure, or a device.")],
    size: Annotated[str, typer.Option("--size", help="How much of the disk to use.")] = "1G",
    seconds: Annotated[float, typer.Option("--seconds", help="Of each of the six disk runs.", min=1)] = 5.0,
    kind: Annotated[str, typer.Option("--kind", help="What the disk is: hdd, ssd or nvme.")] = "ssd",
    peer: Annotated[str, typer.Option("--peer", help="Another machine, running `iperf3 -s`.")] = "",
    destroy: Annotated[bool, typer.Option("--destroy-data", help="The disk is a device: overwrite it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure core speed, memory, checksums, disk and network, and write the profile `this-machine`."""
    with reporting(as_json) as out:
        from tuning.profile import DiskKind
        from tuning.profilefile import THIS_MACHINE
        from tuning.profiletext import to_toml

        if kind not in [one.value for one in DiskKind]:
            raise SpecError("the kind of disk is not one", f"got {kind!r}, wanted hdd, ssd or nvme")
        wanted = _Wanted(disk, parse_bytes("--size", size), seconds, DiskKind(kind), peer, destroy)
        if wanted.size_bytes < _LEAST_BYTES:
            raise SpecError("--size is too small", f"got {wanted.size_bytes} bytes, wanted {_LEAST_BYTES} or more")
        world = world_of(ctx)
        world.home.ensure()
        with interruptible(out.note), out.progress() as say:
            made = _measured(world, wanted, say)
        path = world.home.profiles / f"{THIS_MACHINE}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(to_toml(made))
        part.replace(path)
        figures = {place: {"value": str(figure), "source": figure.source} for place, figure in made.figures()}
        lines = [f"{place}: {figure['value']}   [{figure['source']}]" for place, figure in figures.items()]
        out.result("\n".join([*lines, f"written to {path}"]), {"profile": str(path), "figures": figures})


@dataclass(frozen=True)
class _Wanted:
    """The options, checked."""

    disk: Path
    size_bytes: int
    seconds: float
    kind: str
    peer: str
    destroy: bool


def _measured(world: World, wanted: _Wanted, say: Callable[[str], None]) -> Profile:
    """Refuse what cannot be done first; then measure one thing after the other."""
    from lab import probe as measure
    from tuning.profile import Profile, Threads
    from tuning.profilefile import THIS_MACHINE

    program = measure.require_programs()
    with measure.scratch(wanted.disk, wanted.size_bytes, destroy=wanted.destroy) as path:
        network = _network(wanted.peer, say)
        machine = _machine(program, network.bandwidth, _rates(world, say), say)
        disks = _disks(path, wanted, say)
    from dataclasses import replace

    return Profile(
        name=THIS_MACHINE,
        title=f"This machine, measured by cephlab probe: {_cpu_model()}",
        nodes=(replace(machine, disks=(disks,)),),
        clients=(),
        rtt=network.rtt,
        mtu_bytes=network.mtu_bytes,
        threads=Threads(),
        clients_on_nodes=True,
        missing=("Power: not measured.", "The load runs on the same machine and takes its share of it."),
    )


@dataclass(frozen=True)
class _Network:
    """What a profile says of it."""

    bandwidth: Figure
    rtt: Figure
    mtu_bytes: int


def _network(peer: str, say: Callable[[str], None]) -> _Network:
    from lab import probe as measure
    from tuning.units import Kind

    say(f"network to {peer or 'itself'}")
    if peer:
        line = measure.line_to(peer, _NETWORK_S)
        return _Network(
            _figure(line.bytes_s, Kind.RATE, f"measured: iperf3 to {peer}, 4 streams"),
            _figure(line.rtt_s, Kind.TIME, f"measured: TCP handshake with {peer}, median"),
            line.mtu_bytes,
        )
    rate = measure.loopback_bytes_s(_NETWORK_S)
    return _Network(
        _figure(rate, Kind.RATE, "measured: iperf3 on the loopback, 1 stream"),
        _figure(measure.loopback_rtt_s(), Kind.TIME, "measured: one byte and its answer, TCP on the loopback, median"),
        _LOOPBACK_MTU,
    )


def _rates(world: World, say: Callable[[str], None]) -> Rates | None:
    """Of the newest image of this machine's architecture; those of others run emulated and are only told."""
    from lab.arch import host_arch
    from lab.rates import rates

    own = None
    for arch, image in {image.arch: image for image in world.images.list()}.items():
        say(f"checksum and erasure code of the {arch} image")
        found = rates(image)
        if arch is host_arch():
            own = found
        shown = f"{arch}: CRC-32C {found.crc32c / 1e9:.2f} GB/s, EC 4+2 {found.ec_encode / 1e9:.2f} GB/s"
        say(f"{shown}; emulated, which says nothing of hardware" if found.emulated else shown)
    if own is None:
        say("no image of this architecture is cached: its checksum and erasure code are not measured")
    return own


def _machine(program: str, bandwidth: Figure, own: Rates | None, say: Callable[[str], None]) -> Machine:
    from lab import probe as measure
    from lab.arch import host_arch
    from tuning.profile import Machine
    from tuning.units import Kind

    threads = psutil.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or threads
    say("core speed: 7-Zip on all CPUs")
    mips = measure.cpu_rating(program)
    points = mips / cores / measure.MIPS_PER_POINT
    say("checksums and memory")
    memory = psutil.virtual_memory().total
    copy = measure.memory_copy_bytes_s()
    return Machine(
        name="this-machine",
        count=1,
        arch=host_arch(),
        cores=cores,
        threads_per_core=max(1, threads // cores),
        core_speed=_figure(
            points,
            Kind.SPEED,
            f"measured: 7-Zip {mips:,.0f} MIPS, {cores} cores, {threads} CPUs, {measure.MIPS_PER_POINT:g} MIPS a point",
        ),
        memory=_figure(memory, Kind.BYTES, f"the kernel's figure; one core copies {copy / 1e9:.1f} GB/s, measured"),
        bandwidth=bandwidth,
        crc32c=_figure(measure.crc32c_bytes_s(), Kind.RATE, "measured: fio --crctest, one core"),
        ec_encode=_figure(own.ec_encode, Kind.RATE, f"measured: {_CODE}, one core") if own else None,
    )


def _disks(path: Path, wanted: _Wanted, say: Callable[[str], None]) -> Disks:
    from lab import probe as measure
    from tuning.profile import DiskKind, DiskRole, Disks
    from tuning.units import Kind

    found = measure.disk(path, wanted.size_bytes, wanted.seconds, say)
    how = f"measured: fio on {wanted.disk}, {wanted.seconds:g} s"
    return Disks(
        name="disk",
        kind=DiskKind(wanted.kind),
        role=DiskRole.DATA,
        count=1,
        size=_figure(wanted.size_bytes, Kind.BYTES, "the part that was measured"),
        osds_per_disk=_OSDS,
        read_iops=_figure(found.read_iops, Kind.OPS, f"{how}, 4 KiB randread, depth 64"),
        write_iops=_figure(found.write_iops, Kind.OPS, f"{how}, 4 KiB randwrite, depth 64"),
        seq_read=_figure(found.seq_read, Kind.RATE, f"{how}, 1 MiB read, depth 16"),
        seq_write=_figure(found.seq_write, Kind.RATE, f"{how}, 1 MiB write, depth 16"),
        sync_latency=_figure(found.sync_latency_s, Kind.TIME, f"{how}, 4 KiB write with --sync=1, depth 1"),
        read_latency=_figure(found.read_latency_s, Kind.TIME, f"{how}, 4 KiB randread, depth 1"),
    )


def _figure(value: float, kind: str, source: str) -> Figure:
    from tuning.profile import Figure
    from tuning.units import Kind

    return Figure(value, Kind(kind), source)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith(("model name", "cpu part")):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"
