"""The model: from demands and a profile to throughput, latency, bottleneck and utilisation of each resource."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning import calibrate, devices, imbalance, memory, mva, placement
from cephlab.tuning.ceilings import Ceiling, at_a_gateway, ceilings, mixed
from cephlab.tuning.constants import Constants, current
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.profile import Profile
from cephlab.tuning.trust import Trust, trust_in
from cephlab.tuning.units import Measure, show
from cephlab.tuning.unloaded import Alone, alone
from cephlab.tuning.work import OperationWork, with_reread, work_for
from cephlab.tuning.workload import Flow, Shape


@dataclass(frozen=True)
class Prediction:
    """What a profile should deliver. utilisation: resource -> share in use at `ops`, of the busiest of equal ones.

    ops: operations a second with the shape's load; latency_s: mean; ceiling: the most at any load; unloaded_s: latency
    of a single operation; trust: how far `ops` and `latency_s` may be off.
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
    trust: Trust

    @property
    def bytes_s(self) -> float:
        """Payload a second."""
        return self.ops * self.shape.payload_bytes

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 90 % interval of each figure, by the name that the figure has in JSON."""
        figures = {"ops_s": self.ops, "bytes_s": self.bytes_s, "latency_s": self.latency_s}
        return {name: self.trust.around(figure) for name, figure in figures.items()}

    @property
    def ceiling(self) -> float:
        return self.ceilings[0].ops


def predict(
    demands: Sequence[Demand],
    profile: Profile,
    shape: Shape,
    constants: Constants | None = None,
    *,
    release: str = "",
) -> Prediction:
    """Predict throughput and latency of a shape on a profile; SpecError without a fitting demand, disks or gateway.

    constants: None: the shipped ones. release: of Ceph on the cluster; empty: that of the demands.
    """
    known = current() if constants is None else constants
    usable = calibrate.demands(demands, known)
    parts = [(share, _part(usable, profile, part, known, release)) for share, part in shape.parts]
    limits = mixed([(share, part.limits) for share, part in parts])
    alone_s = sum(share * part.unloaded.seconds for share, part in parts)
    stations = _stations(limits)
    point = mva.solve(stations, alone_s, shape.in_flight)
    batches = [ceiling.ops for ceiling in limits if ceiling.batches]
    # A batch thread forms no queue (see Ceiling), but no more than its ceiling gets through it.
    ops = min([point.throughput, *batches])
    latency = shape.in_flight / ops
    bottleneck = _bottleneck(limits, ops)
    steps = [
        *(step for _, part in parts for step in part.steps(profile)),
        *(ceiling.step for ceiling in limits),
        *(part.unloaded.step for _, part in parts),
        *_queues(limits, stations, alone_s, point, shape),
        DerivationStep(
            "predicted",
            f"the lower of the queueing result and the ceilings of threads that work in batches; limit: {bottleneck}",
            f"{ops:,.0f} ops/s",
        ),
        DerivationStep(
            "latency", f"{shape.in_flight} / {ops:,.0f} ops/s", show(latency, Measure.TIME), "Little's law (1961)"
        ),
    ]
    return Prediction(
        profile=profile.name,
        shape=shape,
        ops=ops,
        latency_s=latency,
        bottleneck=bottleneck,
        ceilings=limits,
        utilisation={ceiling.name: ops * ceiling.busiest_s for ceiling in limits},
        unloaded_s=alone_s,
        derivation=Derivation(tuple(steps)),
        unknown=tuple(dict.fromkeys(line for _, part in parts for line in _unknown(profile, part.work, release))),
        trust=trust_in(profile, shape),
    )


@dataclass(frozen=True)
class _Part:
    """One plain operation of a shape: its price, its placement, its ceilings and its latency when alone."""

    work: OperationWork
    loads: tuple[placement.MachineLoad, ...]
    limits: tuple[Ceiling, ...]
    unloaded: Alone

    def steps(self, profile: Profile) -> Iterator[DerivationStep]:
        shape = self.work.shape
        yield from self.work.derivation.steps
        yield from placement.steps(self.loads, shape)
        yield imbalance.step(profile, shape)
        yield from (step for machine in profile.nodes for step in devices.span_steps(machine, shape))


def _part(demands: Sequence[Demand], profile: Profile, shape: Shape, constants: Constants, release: str) -> _Part:
    hardware = calibrate.hardware(profile, shape.flow, constants)
    priced = with_reread(demands, work_for(demands, shape))
    lone = calibrate.lone(calibrate.loaded(priced, constants, release), constants)
    work = calibrate.loaded(calibrate.connected(priced, profile.osds, constants), constants, release)
    lone, work = (_cached(profile, each) for each in (lone, work))
    return _Part(work, placement.loads(hardware, shape), ceilings(hardware, work), alone(hardware, lone))


def _cached(profile: Profile, work: OperationWork) -> OperationWork:
    """Set the share of reads whose metadata is not in memory, where the shape says how much data there is."""
    known = memory.missed(profile, work.shape)
    if known is None or work.shape.flow is not Flow.READ:
        return work
    share, step = known
    return replace(work, metadata_reads=share, derivation=work.derivation + Derivation((step,)))


def _stations(limits: Sequence[Ceiling]) -> list[mva.Station]:
    """Where an operation can queue: hardware and thread pools, but not threads that work in batches."""
    return [line for ceiling in limits if not ceiling.batches for line in _lines_of(ceiling)]


def _lines_of(ceiling: Ceiling) -> list[mva.Station]:
    """The busiest of equal resources as one station; the others share the rest evenly.

    The busiest one decides the throughput; a mean over all would hide its queue. It can be in any class. So each class
    has a part of it, by how many of the resources the class has, and splitting a class changes nothing.
    """
    whole = ceiling.seconds * ceiling.copies
    waited = ceiling.path_s / whole  # the share of the work that the operation itself waits for
    part = ceiling.copies / max(ceiling.among, ceiling.copies)
    if ceiling.copies <= part or ceiling.uneven == 1:
        each = ceiling.busiest_s
        return [mva.Station(ceiling.name, each, ceiling.copies, each * waited)]
    rest = max(0.0, whole - part * ceiling.busiest_s) / (ceiling.copies - part)
    return [
        mva.Station(f"the busiest of {ceiling.name}", ceiling.busiest_s, part, ceiling.busiest_s * waited),
        mva.Station(ceiling.name, rest, ceiling.copies - part, rest * waited),
    ]


def _queues(
    limits: Sequence[Ceiling], stations: Sequence[mva.Station], alone_s: float, point: mva.Point, shape: Shape
) -> Iterator[DerivationStep]:
    """The demands that go into the queueing model, bounds on its result, and the resulting times in queues."""
    for ceiling in limits:
        if not ceiling.batches:
            whole = ceiling.seconds * ceiling.copies
            how = f"{show(ceiling.seconds, Measure.TIME)} at each of {ceiling.copies:g}"
            value = f"{show(whole, Measure.TIME)} in all, on the path: {show(ceiling.path_s, Measure.TIME)}"
            yield DerivationStep(
                f"demand D of {ceiling.name}", how, value, mva.FORK if ceiling.path_s < whole else mva.DEMAND
            )
    tightest = max((station.seconds for station in stations), default=0.0)
    yield DerivationStep(
        f"bounds with {shape.in_flight} in flight",
        f"min({shape.in_flight} / {show(alone_s, Measure.TIME)}, 1 / {show(tightest, Measure.TIME)})",
        f"at most {mva.bound(stations, alone_s, shape.in_flight):,.0f} ops/s",
        mva.BOUNDS,
    )
    longest = sorted(point.queued.items(), key=lambda item: -item[1])[:5]
    waits = ", ".join(f"{name} {show(seconds, Measure.TIME)}" for name, seconds in longest if seconds > 0)
    yield DerivationStep(
        f"queues with {shape.in_flight} in flight",
        f"{shape.clients} clients x {shape.depth}; time in queues: {waits or 'none'}",
        f"{point.throughput:,.0f} ops/s after {show(point.response_s, Measure.TIME)}",
        mva.SOURCE,
    )


def _bottleneck(limits: Sequence[Ceiling], ops: float) -> str:
    tightest = limits[0]
    # A resource below this utilisation does not hold the operations back: too few are in flight.
    full = 0.8
    if ops * tightest.busiest_s < full:
        return f"too few operations in flight (next limit: {tightest.name})"
    return tightest.name


def _unknown(profile: Profile, work: OperationWork, release: str) -> tuple[str, ...]:
    """What the figures leave out, as sentences."""
    measured = (*work.doubts, *calibrate.release_doubts(work, release))
    sentences = [*measured, *placement.doubts(profile, work.shape), *memory.doubts(profile), *profile.missing]
    if work.shape.through_gateway and work.gateway is None:
        sentences.append("CPU of the gateways: not measured, so it is no limit here.")
    if profile.nvmeof_cores and not at_a_gateway(work.shape):
        sentences.append("NVMe-oF gateways: their cost is known for 4 KiB of an image only, so they are no limit here.")
    return tuple(sentences)
