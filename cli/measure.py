"""`cephlab measure`: what one operation costs each role, with intervals, as a demand file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.output import JsonOption, Output, reporting
from cli.request import parse_options
from cli.signals import interruptible
from cli.world import World, world_of
from lab.errors import SpecError, Unavailable

if TYPE_CHECKING:
    from lab.arch import Arch
    from lab.providers.select import Choice
    from lab.spec import ClusterSpec
    from lab.telemetry.demand import Demand, Operation
    from lab.telemetry.demandfile import Measurement
    from lab.telemetry.plan import Load, Plan

_SIZE = re.compile(r"(\d+)([kKmMgG]?)(?:i?[bB])?")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LEAST_BYTES = 512
MAX_DEPTH = 1024
MAX_CLIENTS = 16
DISKS = ("auto", "memory", "file")


_Operations = Annotated[
    list[str] | None,
    typer.Option(
        help="randwrite, randread, write or read of an image, put or get of objects through a gateway, seq of whole "
        "objects by rados bench; also as randread:16k; repeatable.",
        metavar="OP[:SIZE]",
    ),
]
_Clients = Annotated[
    int, typer.Option(help="Clients at once, each on a node and an image of its own.", min=1, max=MAX_CLIENTS)
]
_LowDepth = Annotated[
    int | None,
    typer.Option(help="A second, lower load; 0 for none. Default: one client of several, else --depth / 4.", min=0),
]
_DisksIn = Annotated[
    str, typer.Option(help="memory, file, or auto: in memory where the provider can, so that CPU is what limits.")
]
_Settings = Annotated[
    list[str] | None, typer.Option(help="ceph.conf setting of the cluster; repeatable.", metavar="KEY=VALUE")
]
_SaveBaseline = Annotated[
    bool, typer.Option("--save-baseline", help="Keep the result as what later runs are compared with.")
]
_Beside = Annotated[
    str,
    typer.Option(
        help="Raise this too, load both at once, and judge what became dearer: `baseline`, a release, the beginning of "
        "a cached image's key, or `same`.",
        metavar="WHAT",
    ),
]
_Changed = Annotated[
    list[str] | None,
    typer.Option(help="With --beside: ceph.conf setting of the new side only; repeatable.", metavar="KEY=VALUE"),
]


def measure(
    ctx: typer.Context,
    *,
    op: _Operations = None,
    bs: Annotated[str, typer.Option(help="Size of those operations that name none, e.g. 4k or 4M.")] = "4k",
    depth: Annotated[int, typer.Option(help="Requests in flight of each client.", min=1, max=MAX_DEPTH)] = 16,
    clients: _Clients = 1,
    low_depth: _LowDepth = None,
    arch: Annotated[str, typer.Option(help="Architecture of the OSDs.")] = "x86_64",
    replicas: Annotated[int, typer.Option(help="Copies; there are as many OSDs.", min=1, max=9)] = 3,
    ec: Annotated[str | None, typer.Option(help="K+M: erasure-coded instead, on K+M OSDs.", metavar="K+M")] = None,
    release: Annotated[str | None, typer.Option(help="Ceph release; not with --image.", show_default="reef")] = None,
    lab: Annotated[
        str, typer.Option(help="auto (local or container), or any provider by its name; see docs/regression.md.")
    ] = "auto",
    image: Annotated[str | None, typer.Option(help="Pulled image instead of a built one.", metavar="REF")] = None,
    size: Annotated[
        str, typer.Option(help="Size of each RBD image, written twice over first, or of all objects.")
    ] = "256M",
    within: Annotated[float, typer.Option(help="Wanted half width of the interval, in percent.", min=0.1)] = 3.0,
    budget: Annotated[float, typer.Option(help="Seconds of load at most for each operation.", min=5)] = 60.0,
    disks: _DisksIn = "auto",
    option: _Settings = None,
    output: Annotated[Path | None, typer.Option(help="Demand file; in the home's `demands` when left out.")] = None,
    save_baseline: _SaveBaseline = False,
    beside: _Beside = "",
    changed: _Changed = None,
    as_json: JsonOption = False,
) -> None:
    """Raise a cluster, load it with one operation, and say what each role spends on it. ^C removes everything."""
    with reporting(as_json) as out:
        request = Request(
            operations=tuple(parse_op(one, bs) for one in op or ("randwrite",)),
            depth=depth,
            clients=clients,
            low_depth=low_depth,
            arch=arch,
            replicas=replicas,
            coding=parse_ec(ec) if ec else (0, 0),
            release=release_of(release, image),
            lab=lab,
            image=image,
            image_bytes=parse_bytes("--size", size),
            within=within / 100,
            budget_s=budget,
            disks=disks,
            options=parse_options(option or ()),
        )
        plans = request.plans()
        if beside or changed:
            _side_by_side(ctx, out, request, beside, parse_options(changed or ()))
            return
        path, measured = _do(world_of(ctx), out, request, plans, output)
        from lab.telemetry import baselines
        from lab.telemetry.demandfile import to_json

        for one in measured if save_baseline else ():
            out.note(f"baseline: {baselines.store(world_of(ctx).home, one)}")

        out.result(page(path, measured), {**to_json(measured), "file": str(path)})


def _side_by_side(ctx: typer.Context, out: Output, request: Request, what: str, changed: dict[str, str]) -> None:
    """Ends with 1 on a regression, 6 when it cannot tell, as `cephlab compare` does."""
    from cli import beside
    from cli.compare import conclude

    found = beside.measure_beside(world_of(ctx), out, request, what or beside.SAME, changed)
    beside.notes(out, found)
    conclude(out, found.compared)


@dataclass(frozen=True)
class Request:
    """The options, parsed."""

    operations: tuple[tuple[str, int], ...]
    depth: int
    low_depth: int | None
    arch: str
    replicas: int
    coding: tuple[int, int]
    release: str
    lab: str
    image: str | None
    image_bytes: int
    within: float
    budget_s: float
    options: dict[str, str]
    disks: str = "auto"
    clients: int = 1

    def plans(self) -> list[Plan]:
        """One for each operation; SpecError on what is no operation."""
        from lab.telemetry.place import client_name
        from lab.telemetry.plan import Plan
        from lab.telemetry.statistics import Stop

        largest = max(size for _, size in self.operations)
        if self.image_bytes < largest:
            raise SpecError("--size is smaller than an operation", f"{self.image_bytes} < {largest} bytes")
        stop = Stop(self.within, self.budget_s)
        nodes = tuple(client_name(number) for number in range(self.clients))
        return [
            Plan(self._operation(name, size), nodes, self.image_bytes, stop, self.low(), gateway=gateway_of(name))
            for name, size in self.operations
        ]

    def low(self) -> Load | None:
        """The lower load: as asked, or one of several clients, or a quarter of the depth."""
        from lab.telemetry.plan import Load

        if self.low_depth is None and self.clients > 1:
            return Load(self.depth)
        depth = self.depth // 4 if self.low_depth is None else self.low_depth
        return Load(depth, self.clients) if depth else None

    def _operation(self, name: str, size: int) -> Operation:
        from lab.telemetry.demand import Operation

        k, m = self.coding
        return Operation(name, size, self.depth, replicas=k + m or self.replicas, k=k, m=m, clients=self.clients)

    def spec(self, *, in_memory: bool = False) -> ClusterSpec:
        """The cluster: an OSD for each copy or shard."""
        from lab.telemetry.place import measuring_spec
        from lab.telemetry.plan import SEQ

        return measuring_spec(
            self.osd_arch,
            osds=sum(self.coding) or self.replicas,
            clients=self.clients,
            release=self.release,
            image=self.image,
            options=self.options,
            in_memory=in_memory,
            gateway=any(gateway_of(name) for name, _ in self.operations),
            held_bytes=self.image_bytes * self.clients if any(name == SEQ for name, _ in self.operations) else 0,
        )

    def choose(self, world: World) -> tuple[Choice, ClusterSpec]:
        """The provider and the spec for it; with `auto`, disks are in memory where any has them."""
        from lab.providers.select import AUTO, choose
        from lab.telemetry.place import UNASKED

        fit = {name: make for name, make in world.providers.items() if self.lab != AUTO or name in UNASKED}
        if self.disks not in DISKS:
            raise SpecError(f"--disks: {self.disks!r} is not known", f"wanted: {', '.join(DISKS)}")
        if self.disks != "file":
            spec = self.spec(in_memory=True)
            try:
                return choose(self.lab, spec, providers=fit), spec
            except Unavailable:
                if self.disks == "memory":
                    raise
        spec = self.spec(in_memory=False)
        return choose(self.lab, spec, providers=fit), spec

    @property
    def osd_arch(self) -> Arch:
        from lab.arch import parse_arch

        return parse_arch(self.arch)


def _do(
    world: World, out: Output, request: Request, plans: list[Plan], output: Path | None
) -> tuple[Path, tuple[Measurement, ...]]:
    from fixtures.expectation import speed_here
    from lab.preflight import require_fit
    from lab.telemetry import demandfile, place
    from lab.telemetry.measure import measure as measure_one

    choice, spec = request.choose(world)
    for arch in spec.archs if spec.image is None else ():
        world.images.book.find(spec.release, arch)
    world.home.ensure()
    require_fit(spec, world.home.runs)
    out.note(f"provider: {choice.reason}")
    measured = []
    with interruptible(out.note), out.progress() as say:
        images = place.images_for(spec, world.images, say)
        with place.standing(choice.provider, spec, images, world.runs, say) as cluster:
            key = place.identity(cluster, images, request.osd_arch)
            for plan in plans:
                say(f"measuring {plan.operation.name} of {plan.operation.block_bytes} bytes")
                measured.append(measure_one(cluster, plan, image_key=key, say=say, conditions=place.machine()))
    speed = speed_here(world.home)
    if not speed:
        out.note("run `cephlab probe` and measure again where a prediction is to start from this")
    measured = [rated(one, speed) for one in measured]
    path = output or world.home.demands / file_name(request, measured[0].demand)
    demandfile.save(path, measured)
    return path.absolute(), tuple(measured)


def rated(one: Measurement, speed: float) -> Measurement:
    """The same with the core speed of this machine; as it is where it was not measured here, or is not native."""
    from lab.telemetry.place import ELSEWHERE, MACHINE

    if one.demand.emulated or one.conditions.get(MACHINE) == ELSEWHERE:
        return one
    return replace(one, demand=replace(one.demand, core_speed=speed))


def file_name(request: Request, demand: Demand) -> str:
    """`reef-x86_64-1ff424429b29-randwrite4k-d16-x3.json`. demand: any of those in it."""
    names = "+".join(f"{name}{_short(size)}" for name, size in request.operations)
    pool = f"ec{request.coding[0]}+{request.coding[1]}" if any(request.coding) else f"x{request.replicas}"
    clients = f"-c{request.clients}" if request.clients > 1 else ""
    image = f"{demand.release}-{demand.arch}-{demand.image[:12]}"
    return f"{image}-{names}-d{request.depth}{clients}-{pool}.json"


def release_of(release: str | None, image: str | None) -> str:
    """What a cluster is asked to be; SpecError where both are given, as a pulled image says itself which it is."""
    from lab.spec import DEFAULT_RELEASE, UNKNOWN_RELEASE, refuse_both

    refuse_both(release, image)
    return UNKNOWN_RELEASE if image else release or DEFAULT_RELEASE


def _short(size_bytes: int) -> str:
    for unit in "gmk":
        if size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return str(size_bytes)


def gateway_of(operation: str) -> str:
    """The node of the gateway that an operation goes through; empty for one that goes through none."""
    from lab.telemetry.place import GATEWAY
    from lab.workloads.s3 import OPERATIONS

    return GATEWAY if operation in OPERATIONS else ""


def parse_op(text: str, size: str) -> tuple[str, int]:
    """(name, bytes) from `randread` or `randread:16k`; size: that of operations that name none."""
    name, _, own = text.partition(":")
    return name, parse_bytes("--op" if own else "--bs", own or size)


def parse_bytes(option: str, text: str) -> int:
    """Bytes from `4k`, `4M` or a plain number; units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) * _UNITS[match[2].lower()] < _LEAST_BYTES:
        raise SpecError(f"{option}: {text!r} is not a size", f"wanted: {_LEAST_BYTES} bytes or more", "write 4k or 4M")
    return int(match[1]) * _UNITS[match[2].lower()]


def parse_ec(text: str) -> tuple[int, int]:
    """(k, m) from `4+2`."""
    match = re.fullmatch(r"(\d)\+(\d)", text)
    if match is None or int(match[1]) < 2 or int(match[2]) < 1:
        raise SpecError(f"--ec: {text!r} is not K+M", "wanted: K of 2 or more and M of 1 or more", "write 2+1")
    return int(match[1]), int(match[2])


def page(path: Path, measured: tuple[Measurement, ...]) -> Any:
    """The intervals as tables, and the words that belong to them."""
    from rich.console import Group

    parts: list[Any] = []
    for one in measured:
        parts += [costs_table(one), _words(one), ""]
    return Group(*parts, str(path))


def costs_table(one: Measurement) -> Any:
    """A row for each role and resource of a demand."""
    from cli.output import table
    from lab.telemetry.describe import rows, title

    return table(
        ("role", "resource", "per operation", "95 % interval"), list(rows(one.demand)), title=title(one.demand)
    )


def _words(one: Measurement) -> str:
    lines = [
        one.stopped,
        one.linearity,
        f"harness: {float(one.conditions.get('harness_share', 'nan')):.1%} of the CPU that was measured",
    ]
    if one.demand.emulated:
        lines.append(f"says nothing of real hardware: {one.conditions.get('native', 'emulated')}")
    return "\n".join(lines)
