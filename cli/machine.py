"""`cephlab doctor` and `cephlab probe`: what a lab needs on this machine, and its speed as a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psutil
import typer

from cephlab.cli.completion import words
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table, toned
from cephlab.cli.request import parse_bytes
from cephlab.cli.world import World
from cephlab.lab.base import probe as measure
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.progress import Progress
from cephlab.lab.base.runs import write_private
from cephlab.lab.spec.arch import host_arch
from cephlab.tuning.profile import DiskKind, DiskRole, Disks, Figure, MachineClass, Profile, Threads
from cephlab.tuning.units import Measure

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from cephlab.lab.cluster.doctor import Need
    from cephlab.lab.cluster.rates import Rates


_REMEDY = "what it is for, and how to get it"


@framed
def doctor(out: Output, world: World) -> int:
    """Show what a lab needs: what is present, what is missing, and how to get it. Exit code 3 if no lab can run.

    Example: cephlab doctor
    """
    from cephlab.lab.cluster.doctor import lacking, needs, ready_words

    needed = needs(world.home)
    lacks = lacking(needed)
    out.result(_needs_page(needed), {"needs": [asdict(need) for need in needed], "ready": not lacks})
    if lacks and not out.as_json:
        detail = "\n".join(f"{need.name}: {need.detail}" for need in lacks)
        raise LabBroken(
            "no lab can run here", detail, "install what is missing as shown above, then run `cephlab doctor` again"
        )
    if not out.as_json and not lacks:
        out.lines("", ready_words(needed))
    return LabBroken.exit_code if lacks else 0


def _needs_page(needed: Sequence[Need]) -> Group:
    """What is present and what is missing; below it, what each missing thing is for and how to get it."""
    from rich.console import Group
    from rich.text import Text

    rows: list[list[str | Text]] = [
        [toned("ok" if need.present else "missing"), need.name, need.detail if need.detail != "ready" else need.unlocks]
        for need in needed
    ]
    missing: list[list[str | Text]] = [
        [need.name, f"{need.unlocks}\n{need.remedy}"] for need in needed if not need.present
    ]
    parts = [table(("", "need", "found"), rows, wrapped=("found",))]
    if missing:
        parts.append(table(("missing", _REMEDY), missing, wrapped=(_REMEDY,)))
    return Group(parts[0], *(part for more in parts[1:] for part in (Text(), more)))


_LEAST_BYTES = 64 << 20
_NETWORK_S = 3.0
_CODE = "ceph_erasure_code_benchmark, isa, 4+2, 4 MiB"
_OSDS = 3
_LOOPBACK_MTU = 65536


@dataclass(frozen=True)
class DiskOptions:
    """The disk to measure, and how."""

    disk: Annotated[Path, typer.Option(help="A folder on the disk to measure, or a device.", metavar="DIR|DEVICE")]
    size: Annotated[str, typer.Option(help="How much of the disk to use.")] = "1G"
    seconds: Annotated[float, typer.Option(help="Duration of each of the six disk runs, in seconds.", min=1)] = 5.0
    kind: Annotated[
        str, typer.Option(help="Kind of disk.", metavar="hdd|ssd|nvme", autocompletion=words(*DiskKind))
    ] = "ssd"
    destroy: Annotated[bool, typer.Option("--destroy-data", help="Needed for a device: overwrite its data.")] = False
    precondition: Annotated[
        bool,
        typer.Option("--precondition", help="First write all of it twice, then 4 KiB blocks until steady state."),
    ] = False

    @property
    def size_bytes(self) -> int:
        return parse_bytes("--size", self.size)


@framed
def probe(
    out: Output,
    world: World,
    disk: DiskOptions,
    peer: Annotated[str, typer.Option("--peer", help="Another machine that runs `iperf3 -s`.", metavar="HOST")] = "",
) -> None:
    """Measure core speed, memory, checksums, disk and network, and write the profile `this-machine`.

    Example: cephlab probe --disk /var/tmp --kind nvme
    """
    from cephlab.tuning.profilefile import THIS_MACHINE, to_toml

    if disk.kind not in [kind.value for kind in DiskKind]:
        raise SpecError(f"--kind: {disk.kind!r} is not a kind of disk", "wanted: hdd, ssd or nvme")
    if disk.size_bytes < _LEAST_BYTES:
        raise SpecError(f"--size: {disk.size} is too small", f"wanted: {_LEAST_BYTES} bytes or more")
    world.home.ensure()
    with out.progress() as say:
        profile = _measured(world, disk, peer, say)
    path = world.home.profiles / f"{THIS_MACHINE}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, to_toml(profile).encode(), mode=0o644)
    figures = {place: {"value": str(figure), "source": figure.source} for place, figure in profile.figures()}
    lines = [f"{place}: {figure['value']}   [{figure['source']}]" for place, figure in figures.items()]
    out.result("\n".join([*lines, f"written to {path}"]), {"profile": str(path), "figures": figures})


def _measured(world: World, disk: DiskOptions, peer: str, say: Progress) -> Profile:
    """Refuse what cannot be measured here, then measure one resource after the other."""
    from cephlab.tuning.profilefile import THIS_MACHINE

    with measure.scratch(disk.disk, disk.size_bytes, destroy=disk.destroy) as path:
        program = measure.require_programs()
        network = _network(peer, say)
        machine = _machine(program, network.bandwidth, _rates(world, say), say)
        disks = _disks(path, disk, say)
    return Profile(
        name=THIS_MACHINE,
        title=f"This machine, measured by cephlab probe: {_cpu_model()}",
        nodes=(replace(machine, disks=(disks,)),),
        clients=(),
        rtt=network.rtt,
        mtu_bytes=network.mtu_bytes,
        threads=Threads(),
        clients_on_nodes=True,
        missing=("Power: not measured.", "The load runs on the same machine and takes part of its capacity."),
    )


@dataclass(frozen=True)
class _NetworkFigures:
    """The network, as a profile has it."""

    bandwidth: Figure
    rtt: Figure
    mtu_bytes: int


def _network(peer: str, say: Progress) -> _NetworkFigures:
    say(f"measuring the network to {peer or 'this machine itself'}")
    if peer:
        line = measure.line_to(peer, _NETWORK_S)
        return _NetworkFigures(
            Figure(line.bytes_s, Measure.RATE, f"measured: iperf3 to {peer}, 4 streams"),
            Figure(line.rtt_s, Measure.TIME, f"measured: TCP handshake with {peer}, median"),
            line.mtu_bytes,
        )
    rate = measure.loopback_bytes_s(_NETWORK_S)
    return _NetworkFigures(
        Figure(rate, Measure.RATE, "measured: iperf3 on the loopback, 1 stream"),
        Figure(measure.loopback_rtt_s(), Measure.TIME, "measured: round trip of one byte, TCP on the loopback, median"),
        _LOOPBACK_MTU,
    )


def _rates(world: World, say: Progress) -> Rates | None:
    """Rates of the newest image for this machine's architecture. Others are emulated, so theirs are only shown."""
    from cephlab.lab.cluster.rates import rates

    own = None
    for arch, image in {image.arch: image for image in world.images.list()}.items():
        say(f"measuring checksum and erasure code of the {arch} image")
        measured = rates(image)
        if arch is host_arch():
            own = measured
        line = f"{arch}: CRC-32C {measured.crc32c / 1e9:.2f} GB/s, EC 4+2 {measured.ec_encode / 1e9:.2f} GB/s"
        say(f"{line}; emulated, so it says nothing about hardware" if measured.emulated else line)
    if own is None:
        say("no image of this architecture is cached: checksum and erasure code are not measured")
    return own


def _machine(program: str, bandwidth: Figure, own: Rates | None, say: Progress) -> MachineClass:
    threads = psutil.cpu_count() or 1
    cores = psutil.cpu_count(logical=False) or threads
    say("measuring core speed: 7-Zip on all CPUs")
    mips = measure.cpu_rating(program)
    points = mips / cores / measure.MIPS_PER_POINT
    say("measuring checksums and memory")
    memory = psutil.virtual_memory().total
    copy = measure.memory_copy_bytes_s()
    return MachineClass(
        name="this-machine",
        count=1,
        arch=host_arch(),
        cores=cores,
        threads_per_core=max(1, threads // cores),
        core_speed=Figure(
            points,
            Measure.SPEED,
            f"measured: 7-Zip {mips:,.0f} MIPS, {cores} cores, {threads} CPUs, {measure.MIPS_PER_POINT:g} MIPS a point",
        ),
        memory=Figure(memory, Measure.BYTES, f"from the kernel; one core copies {copy / 1e9:.1f} GB/s, measured"),
        bandwidth=bandwidth,
        crc32c=Figure(measure.crc32c_bytes_s(), Measure.RATE, "measured: fio --crctest, one core"),
        ec_encode=Figure(own.ec_encode, Measure.RATE, f"measured: {_CODE}, one core") if own else None,
    )


def _disks(path: Path, wanted: DiskOptions, say: Progress) -> Disks:
    speeds = measure.disk(path, measure.DiskRun(wanted.size_bytes, wanted.seconds, wanted.precondition), say)
    how = f"measured: fio on {wanted.disk}, {wanted.seconds:g} s"
    before = f", {speeds.before}" if speeds.before else ""
    return Disks(
        name="disk",
        kind=DiskKind(wanted.kind),
        role=DiskRole.DATA,
        count=1,
        size=Figure(wanted.size_bytes, Measure.BYTES, "the part that was measured"),
        osds_per_disk=_OSDS,
        read_iops=Figure(speeds.read_iops, Measure.OPS, f"{how}, 4 KiB randread, depth 64"),
        write_iops=Figure(speeds.write_iops, Measure.OPS, f"{how}, 4 KiB randwrite, depth 64{before}"),
        seq_read=Figure(speeds.seq_read, Measure.RATE, f"{how}, 1 MiB read, depth 16"),
        seq_write=Figure(speeds.seq_write, Measure.RATE, f"{how}, 1 MiB write, depth 16"),
        sync_latency=Figure(speeds.sync_latency_s, Measure.TIME, f"{how}, 4 KiB write with --sync=1, depth 1"),
        read_latency=Figure(speeds.read_latency_s, Measure.TIME, f"{how}, 4 KiB randread, depth 1"),
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith(("model name", "cpu part")):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"
