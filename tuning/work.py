"""The cost of an operation on other hardware: demands in machine-independent units, for a given shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand, Operation, Resource, Role
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.workload import BARE, FLOWS, STRIPE_UNIT, Flow, Shape

MEASURE = "`cephlab measure` makes it"
_FAR = 4
"""A block this many times larger or smaller than the measured ones counts as extrapolated."""
LOADED = "load generator"
"""A load generator's first thread, whichever dynamic loader started it."""

LINEAR = "service demand is linear in bytes: fixed cost per operation and cost per byte"


@dataclass(frozen=True)
class Price:
    """What one operation costs one role. cpu: points x seconds, on the scale of docs/model-steps.md.

    reads, writes: of devices, counts. threads: the part of `cpu` by thread name. wire: bytes beyond the payload.
    """

    cpu: float = 0.0
    reads: float = 0.0
    writes: float = 0.0
    write_bytes: float = 0.0
    wire: float = 0.0
    threads: Mapping[str, float] = field(default_factory=dict)

    def times(self, factor: float) -> Price:
        return _combine(self, Price(), factor, 0.0)

    def plus(self, other: Price) -> Price:
        return _combine(self, other, 1.0, 1.0)


Prices = Mapping[Role, Price]


def _combine(left: Price, right: Price, a: float, b: float) -> Price:
    """a x left + b x right, never below zero."""
    names = sorted({*left.threads, *right.threads})
    return Price(
        cpu=max(0.0, a * left.cpu + b * right.cpu),
        reads=max(0.0, a * left.reads + b * right.reads),
        writes=max(0.0, a * left.writes + b * right.writes),
        write_bytes=max(0.0, a * left.write_bytes + b * right.write_bytes),
        wire=max(0.0, a * left.wire + b * right.wire),
        threads={n: max(0.0, a * left.threads.get(n, 0.0) + b * right.threads.get(n, 0.0)) for n in names},
    )


@dataclass(frozen=True)
class OperationWork:
    """The price of one client operation of `shape`, by role; replica: of ONE of them. gateway: None: not measured.

    doubts: what makes the figures weak, as sentences. reread: price of reading ONE chunk where a stripe must be read
    before it is written (see `with_reread`); None: nothing is read, or it was not measured. reread_within: such reads
    were measured as a part of `primary` and `replica`. metadata_reads: reads of RocksDB's device for each shard read.
    release: of the Ceph on which it was measured.
    """

    shape: Shape
    client: Price
    primary: Price
    replica: Price
    gateway: Price | None
    derivation: Derivation
    doubts: tuple[str, ...] = ()
    reread: Price | None = None
    reread_within: bool = False
    metadata_reads: float = 1.0
    release: str = ""


def work_for(demands: Sequence[Demand], shape: Shape) -> OperationWork:
    """Fit measured demands to a shape; SpecError when no measured demand fits.

    Demands of the same operation are used, if possible with the same protection (copies or EC). Between two block sizes
    a straight line is drawn.
    """
    chosen = _choose(demands, shape, shape.block_bytes)
    merged = _line([(demand.operation.block_bytes, _protected(demands, demand, shape)) for demand in chosen], shape)
    derivation = _explain(chosen, merged, shape)
    doubts = _doubts(chosen, shape, shape.block_bytes)
    if shape.bare and bool(shape.k) != bool(chosen[0].operation.k):
        doubts += (f"{shape.operation} was measured on {chosen[0].operation.protection} only.",)
    elif shape.k and not all(demand.operation.k for demand in chosen):
        size = int(shape.shard_bytes)
        first = f"Erasure coding was not measured: a shard is priced as a copy of {size} B."
        doubts += (first, *_doubts(_choose(_copied(demands), shape, size), shape, size))
        derivation += Derivation((DerivationStep("EC", "", first),))
    return OperationWork(
        shape=shape,
        client=merged[Role.CLIENT],
        primary=merged[Role.PRIMARY],
        replica=merged[Role.REPLICA],
        gateway=merged[Role.GATEWAY] if any(Role.GATEWAY in demand.costs for demand in chosen) else None,
        derivation=derivation,
        doubts=doubts,
        reread_within=any(_shape(demand).reads_first for demand in chosen),
        release=chosen[0].release,
    )


def _shape(demand: Demand) -> Shape:
    operation = demand.operation
    return Shape(operation.name, operation.block_bytes, 1, 1, operation.replicas, operation.k, operation.m)


def _copied(demands: Sequence[Demand]) -> list[Demand]:
    return [demand for demand in demands if not demand.operation.k]


def _coded(demands: Sequence[Demand]) -> list[Demand]:
    return [demand for demand in demands if demand.operation.k]


def _protected(demands: Sequence[Demand], demand: Demand, shape: Shape) -> Prices:
    """Prices of a demand's block with the protection of `shape`.

    With an erasure code the primary's cost grows with the number of other shards: a straight line through two codes.
    Where no code was measured, shards cost as much as copies of their size.
    """
    prices = _prices(demand)
    if shape.bare:
        return prices
    if shape.k and not demand.operation.k:
        return {**prices, Role.REPLICA: _shard(demands, replace(shape, block_bytes=demand.operation.block_bytes))}
    others = [other for other in demands if shape.k and _differs_in_code(demand, other)]
    if not others or _asked(demand.operation, shape) == _asked(shape.as_operation(), shape):
        return prices
    second = min(others, key=lambda other: abs(other.operation.shards - shape.copies))
    first_n, second_n, wanted = (_asked(o, shape) for o in (demand.operation, second.operation, shape.as_operation()))
    at = (wanted - first_n) / (second_n - first_n)
    return {**prices, Role.PRIMARY: _combine(prices[Role.PRIMARY], _prices(second)[Role.PRIMARY], 1 - at, at)}


def _differs_in_code(demand: Demand, other: Demand) -> bool:
    """Whether both are the same operation with erasure codes, but ask different numbers of OSDs."""
    first, second = demand.operation, other.operation
    alike = (first.name, first.block_bytes, demand.release) == (second.name, second.block_bytes, other.release)
    stripes = _shape(demand).reads_first == _shape(other).reads_first
    return alike and stripes and bool(second.k) and first.k != second.k and first.shards != second.shards


def _asked(operation: Operation, shape: Shape) -> int:
    """Other OSDs that the primary asks: k - 1 for an erasure-coded read, else all others with a copy or shard."""
    return (operation.k if shape.flow is Flow.READ and operation.k else operation.shards) - 1


def _shard(demands: Sequence[Demand], shape: Shape) -> Price:
    """The price of a copy of a shard's size: a sub-read does what a read does, a sub-write what a replica does."""
    size = int(shape.shard_bytes)
    priced = [(d.operation.block_bytes, _prices(d)) for d in _choose(_copied(demands), shape, size)]
    prices = _line(priced, replace(shape, block_bytes=size))
    return prices[Role.PRIMARY if shape.flow is Flow.READ else Role.REPLICA]


def _doubts(chosen: Sequence[Demand], shape: Shape, block_bytes: int) -> tuple[str, ...]:
    if shape.bare:
        return ()
    sizes = [demand.operation.block_bytes for demand in chosen]
    doubts = []
    if block_bytes >= _FAR * max(sizes) or block_bytes * _FAR <= min(sizes):
        span = " and ".join(str(size) for size in sorted(sizes))
        doubts.append(f"Extrapolated: {shape.operation} was measured at {span} B, not near {block_bytes} B.")
    names = sorted({demand.operation.name for demand in chosen} - {shape.operation})
    if names:
        doubts.append(f"{shape.operation} was not measured at {block_bytes} B; {', '.join(names)} is used instead.")
    if shape.k and shape.stripe_unit != STRIPE_UNIT:
        doubts.append(
            f"A stripe unit of {shape.stripe_unit} B was never measured: shards and chunks have that size, and the "
            f"costs of {STRIPE_UNIT} B."
        )
    releases = sorted({demand.release for demand in chosen})
    if len(releases) > 1:
        doubts.append(
            f"{shape.operation} of {block_bytes} B is on a line between two releases: {' and '.join(releases)}."
        )
    return tuple(doubts)


def _choose(demands: Sequence[Demand], shape: Shape, block_bytes: int) -> list[Demand]:
    """One demand, or two to draw a line through by block size; SpecError for a demand without a core speed."""
    usable = _usable(demands, shape, block_bytes)
    sizes = sorted({demand.operation.block_bytes for demand in usable})
    chosen = [_closest(usable, size, shape) for size in _around(sizes, block_bytes, shape)]
    unscaled = [demand for demand in chosen if demand.core_speed <= 0]
    if unscaled:
        raise SpecError(
            "a demand lacks the core speed of the machine that it was measured on",
            f"{unscaled[0].operation.name} of {unscaled[0].operation.block_bytes} B",
            "run `cephlab probe`, then `cephlab measure` again",
        )
    return chosen


def _line(priced: Sequence[tuple[int, Prices]], shape: Shape) -> Prices:
    """The one price, or the straight line through two at the block size of `shape`. priced: (block size, prices)."""
    if len(priced) == 1:
        return priced[0][1]
    (low, least), (high, most) = priced
    at = (shape.block_bytes - low) / (high - low)
    return {role: _combine(least[role], most[role], 1 - at, at) for role in least}


def _usable(demands: Sequence[Demand], shape: Shape, block_bytes: int) -> list[Demand]:
    """Demands to use for a block size: of the same operation, with copies for copies and a code for a code.

    Where these are not enough, random ones stand in for sequential ones and the other way round; then erasure codes for
    copies, and copies for codes. Similar demands on both sides of a size say more than a line that is drawn far beyond
    it. Beyond all of them those that were measured nearest to the size count.
    """
    kin = [demand for demand in demands if not demand.emulated and _kin(demand, shape)]
    exact = [demand for demand in kin if demand.operation.name == shape.operation]
    alike = _coded if shape.k else _copied
    sized = [
        (usable, {demand.operation.block_bytes for demand in usable})
        for usable in (alike(exact), alike(kin), exact, kin)
    ]
    between = [usable for usable, sizes in sized if sizes and min(sizes) <= block_bytes <= max(sizes)]
    if between:
        return between[0]
    beyond = [(min(abs(size - block_bytes) for size in sizes), usable) for usable, sizes in sized if len(sizes) > 1]
    if beyond:
        return min(beyond, key=lambda pair: pair[0])[1]
    if kin:
        return kin
    known = ", ".join(sorted({f"{d.operation.name} {d.operation.block_bytes} B" for d in demands})) or "none"
    raise SpecError(f"no measured demand fits {shape.operation}", f"measured: {known}", MEASURE)


def _kin(demand: Demand, shape: Shape) -> bool:
    if demand.operation.name not in FLOWS:
        return False
    if shape.bare or demand.operation.name in BARE:
        return demand.operation.name == shape.operation
    other = Shape(demand.operation.name, demand.operation.block_bytes, 1, 1)
    return other.flow is shape.flow and other.through_gateway == shape.through_gateway


def _around(sizes: Sequence[int], wanted: int, shape: Shape) -> list[int]:
    """The block sizes to draw a line through: the wanted one, its neighbours, or the two largest or smallest."""
    if wanted in sizes:
        return [wanted]
    if shape.bare:  # the size of the objects does not matter to their names
        return [min(sizes, key=lambda size: abs(size - wanted))]
    if len(sizes) < 2:
        raise SpecError(
            f"{shape.operation} was measured at one block size only",
            f"measured: {sizes[0]} B, wanted: {wanted} B",
            f"measure a second block size; {MEASURE}",
        )
    above = [index for index, size in enumerate(sizes) if size > wanted]
    upper = min(max(above[0], 1), len(sizes) - 1) if above else len(sizes) - 1
    return [sizes[upper - 1], sizes[upper]]


def _closest(usable: Sequence[Demand], size: int, shape: Shape) -> Demand:
    """The demand of a block size that is closest to a shape: by operation, protection, and number of copies.

    Of equally close ones it is the one with the most in flight, like a loaded cluster.
    """
    fitting = [demand for demand in usable if demand.operation.block_bytes == size]

    def distance(demand: Demand) -> tuple[bool, bool, bool, int, int]:
        operation = demand.operation
        other = operation.name != shape.operation
        lonely = operation.shards == 1 and shape.copies > 1
        return other, bool(operation.k) != bool(shape.k), lonely, abs(operation.shards - shape.copies), -operation.depth

    return min(fitting, key=distance)


def _prices(demand: Demand) -> dict[Role, Price]:
    """Prices by role. The replicas' cost is divided by the number of replicas that take part.

    The shards of an index have their own primary OSDs, spread over all OSDs: a page of it costs primaries only, no
    replicas.
    """
    shape = _shape(demand)
    others = max(1, _asked(demand.operation, shape))
    prices = {role: _price(demand, role) for role in (Role.CLIENT, Role.PRIMARY, Role.REPLICA, Role.GATEWAY)}
    if shape.bare and shape.flow is Flow.READ:
        return {**prices, Role.PRIMARY: prices[Role.PRIMARY].plus(prices[Role.REPLICA]), Role.REPLICA: Price()}
    return {**prices, Role.REPLICA: prices[Role.REPLICA].times(1 / others)}


def _price(demand: Demand, role: Role) -> Price:
    speed = demand.core_speed
    wire = demand.of(role, Resource.WIRE_SENT_BYTES) + demand.of(role, Resource.WIRE_RECEIVED_BYTES)
    return Price(
        cpu=demand.cpu_s(role) * speed,
        reads=demand.of(role, Resource.DEVICE_READS),
        writes=demand.of(role, Resource.DEVICE_WRITES),
        write_bytes=demand.of(role, Resource.DEVICE_WRITE_BYTES),
        wire=max(0.0, wire - demand.operation.block_bytes) if role is Role.CLIENT and wire else 0.0,
        threads=_threads(demand.threads.get(role, {}), speed),
    )


def _threads(measured: Mapping[str, float], speed: float) -> dict[str, float]:
    """Points by thread. The first thread of a program that a dynamic loader started has the loader's name."""
    points: dict[str, float] = {}
    for name, seconds in measured.items():
        known = LOADED if name.startswith("ld-") else name
        points[known] = points.get(known, 0.0) + seconds * speed
    return points


def _explain(chosen: Sequence[Demand], merged: Mapping[Role, Price], shape: Shape) -> Derivation:
    steps = [
        DerivationStep(
            "measured",
            "",
            f"{d.operation.name} {d.operation.block_bytes} B, {d.operation.protection}, depth {d.operation.depth}, "
            f"Ceph {d.release} on {d.arch} at {d.core_speed:.2f} points per CPU: client {_us(d, Role.CLIENT)}, "
            f"primary {_us(d, Role.PRIMARY)}, all replicas {_us(d, Role.REPLICA)}, gateway {_us(d, Role.GATEWAY)}",
        )
        for d in chosen
    ]
    if len(chosen) > 1:
        sizes = " and ".join(f"{d.operation.block_bytes} B" for d in chosen)
        steps.append(DerivationStep("block size", f"straight line through {sizes}", f"{shape.block_bytes} B", LINEAR))
    for role, price in merged.items():
        if price.cpu:
            label = "one replica" if role is Role.REPLICA else role.value
            steps.append(
                DerivationStep(
                    f"CPU of {label}", "seconds x points per CPU", f"{price.cpu * 1e3:.3f} point-milliseconds"
                )
            )
    return Derivation(tuple(steps))


def _us(demand: Demand, role: Role) -> str:
    return f"{demand.cpu_s(role) * 1e6:.0f} us"


REREAD_SOURCE = "ECBackend reads the k chunks of a partly written stripe; osd_pool_erasure_code_stripe_unit"


def with_reread(demands: Sequence[Demand], work: OperationWork) -> OperationWork:
    """Add the price of chunks that must be read before the write, or a doubt where it was not measured.

    A chunk costs as much as a random read of its size costs the primary OSD.
    """
    shape = work.shape
    if not shape.reads_first or work.reread_within:
        return work
    how = f"{shape.block_bytes} B is not a multiple of {shape.k} x {shape.stripe_unit} B"
    try:
        chunk = work_for(demands, Shape("randread", shape.stripe_unit, 1, 1, replicas=1)).primary
    except SpecError:
        doubt = "Overwriting a part of a stripe reads the stripe first: the CPU of these reads was not measured."
        return replace(work, doubts=(*work.doubts, doubt))
    step = DerivationStep(
        "read before the write", how, f"{shape.k} chunks at {chunk.cpu * 1e3:.3f} point-ms each", REREAD_SOURCE
    )
    return replace(work, reread=chunk, derivation=work.derivation + Derivation((step,)))
