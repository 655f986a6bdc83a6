"""The model: from demands and a profile to throughput, latency, bottleneck and utilisation of each resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.telemetry.demand import Demand
from tuning import imbalance, mechanics, mva, placement
from tuning.alone import alone
from tuning.ceilings import Ceiling, CeilingKind, ceilings
from tuning.derivation import Derivation, Step
from tuning.profile import Profile
from tuning.rewrite import with_reread
from tuning.units import Kind, show
from tuning.work import Work, work_for
from tuning.workload import Shape


@dataclass(frozen=True)
class Prediction:
    """What a profile should deliver. utilisation: resource -> share of it in use at `ops`, of the busiest of equals.

    ops: operations a second with the shape's load; latency_s: mean; ceiling: the most at any load. unloaded_s: latency
    of one operation alone, which latency_s is for a single client with one in flight.
    """

    profile: str
    shape: Shape
    ops: float
    latency_s: float
    bottleneck: str
    ceilings: tuple[Ceiling, ...]
    utilisation: dict[str, float]
    unloaded_s: float
    derivation: Derivation
    unknown: tuple[str, ...]

    @property
    def bytes_s(self) -> float:
        """Payload a second."""
        return self.ops * self.shape.block_bytes

    @property
    def ceiling(self) -> float:
        return self.ceilings[0].ops


def predict(demands: Sequence[Demand], profile: Profile, shape: Shape) -> Prediction:
    """Throughput and latency of a shape on a profile.

    SpecError when no demand can speak for the shape, or when the cluster cannot hold or serve it.
    """
    loads = placement.loads(profile, shape)
    work = with_reread(demands, work_for(demands, shape))
    found = ceilings(profile, work)
    unloaded = alone(profile, work)
    stations = _stations(found)
    point = mva.solve(stations, unloaded.seconds, shape.in_flight)
    batches = [ceiling.ops for ceiling in found if ceiling.kind is CeilingKind.BATCHES]
    ops = min([point.throughput, *batches])
    latency = shape.in_flight / ops
    bottleneck = _bottleneck(found, ops)
    steps = [
        *work.derivation.steps,
        *placement.steps(loads, shape),
        imbalance.step(profile, shape),
        *(step for machine in profile.nodes for step in mechanics.steps(machine, shape)),
        *(ceiling.step for ceiling in found),
        unloaded.step,
        *_queues(found, stations, unloaded.seconds, point, shape),
        Step(
            "predicted",
            f"the least of the queues and the threads that work in batches; limit: {bottleneck}",
            f"{ops:,.0f} ops/s",
        ),
        Step("latency", f"{shape.in_flight} / {ops:,.0f} ops/s", show(latency, Kind.TIME), "Little's law (1961)"),
    ]
    return Prediction(
        profile=profile.name,
        shape=shape,
        ops=ops,
        latency_s=latency,
        bottleneck=bottleneck,
        ceilings=found,
        utilisation={ceiling.name: ops * ceiling.busiest_s for ceiling in found},
        unloaded_s=unloaded.seconds,
        derivation=Derivation(tuple(steps)),
        unknown=_unknown(profile, work),
    )


def _stations(found: Sequence[Ceiling]) -> list[mva.Station]:
    """Hardware and thread pools: one waits for a thread as one waits for a disk. Not what is done in batches."""
    return [line for ceiling in found if ceiling.kind is not CeilingKind.BATCHES for line in _lines_of(ceiling)]


def _lines_of(ceiling: Ceiling) -> list[mva.Station]:
    """The busiest of equal resources has its own line; the others share what is left."""
    whole = ceiling.seconds * ceiling.copies
    waited = ceiling.path_s / whole
    if ceiling.copies <= 1 or ceiling.uneven == 1:
        each = ceiling.busiest_s
        return [mva.Station(ceiling.name, each, ceiling.copies, each * waited)]
    rest = max(0.0, whole - ceiling.busiest_s) / (ceiling.copies - 1)
    return [
        mva.Station(f"the busiest of {ceiling.name}", ceiling.busiest_s, 1, ceiling.busiest_s * waited),
        mva.Station(ceiling.name, rest, ceiling.copies - 1, rest * waited),
    ]


def _queues(
    found: Sequence[Ceiling], stations: Sequence[mva.Station], alone_s: float, point: mva.Point, shape: Shape
) -> Iterator[Step]:
    """The demands that go into the queues, the bounds on what comes out, and the waits that do."""
    for ceiling in found:
        if ceiling.kind is not CeilingKind.BATCHES:
            whole = ceiling.seconds * ceiling.copies
            how = f"{show(ceiling.seconds, Kind.TIME)} at each of {ceiling.copies:g}"
            value = f"{show(whole, Kind.TIME)} in all, waited through: {show(ceiling.path_s, Kind.TIME)}"
            yield Step(f"demand D of {ceiling.name}", how, value, mva.FORK if ceiling.path_s < whole else mva.DEMAND)
    tightest = max((station.seconds for station in stations), default=0.0)
    yield Step(
        f"bounds with {shape.in_flight} in flight",
        f"min({shape.in_flight} / {show(alone_s, Kind.TIME)}, 1 / {show(tightest, Kind.TIME)})",
        f"at most {mva.bound(stations, alone_s, shape.in_flight):,.0f} ops/s",
        mva.BOUNDS,
    )
    longest = sorted(point.queued.items(), key=lambda item: -item[1])[:5]
    waits = ", ".join(f"{name} {show(seconds, Kind.TIME)}" for name, seconds in longest if seconds > 0)
    yield Step(
        f"queues with {shape.in_flight} in flight",
        f"{shape.clients} clients x {shape.depth}; waited for: {waits or 'nothing'}",
        f"{point.throughput:,.0f} ops/s after {show(point.response_s, Kind.TIME)}",
        mva.SOURCE,
    )


def _bottleneck(found: Sequence[Ceiling], ops: float) -> str:
    tightest = found[0]
    # Below this share of its ceiling no resource is what holds the operations back: there are too few of them.
    full = 0.8
    if ops * tightest.busiest_s < full:
        return f"too little in flight (next: {tightest.name})"
    return tightest.name


def _unknown(profile: Profile, work: Work) -> tuple[str, ...]:
    """What the figures leave out, as sentences."""
    found = [*work.doubts, *placement.doubts(profile, work.shape), *profile.missing]
    if work.shape.through_gateway and work.gateway is None:
        found.append("CPU of the gateways: not measured, so it is no limit here.")
    return tuple(found)
