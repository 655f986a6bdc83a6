"""The model: from demands and a profile to throughput, latency, bottleneck and utilisation of each resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.telemetry.demand import Demand
from tuning import mechanics, mva
from tuning.ceilings import Ceiling, CeilingKind, ceilings
from tuning.daemons import thread_speed
from tuning.derivation import Derivation, Step
from tuning.profile import Machine, Profile
from tuning.units import Kind, show
from tuning.work import Work, work_for
from tuning.workload import Flow, Shape


@dataclass(frozen=True)
class Prediction:
    """What a profile should deliver. utilisation: resource -> share of it in use at `ops`, of the busiest of equals.

    ops: operations a second with the shape's load; latency_s: mean; ceiling: the most at any load.
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
    """Throughput and latency of a shape on a profile; SpecError when no demand can speak for the shape."""
    work = work_for(demands, shape)
    found = ceilings(profile, work)
    unloaded, path = _unloaded(profile, work)
    point, held = _loaded(found, unloaded, shape.in_flight)
    # An operation that holds a full thread pool keeps the hardware from being loaded any further.
    pools = [ceiling for ceiling in found if ceiling.kind is CeilingKind.THREADS]
    limit = min((ceiling.ops for ceiling in pools), default=point.throughput)
    ops = min(point.throughput, limit)
    latency = max(point.response_s, shape.in_flight / ops)
    bottleneck = _bottleneck(found, ops)
    steps = [
        *work.derivation.steps,
        *(ceiling.step for ceiling in found),
        *path,
        Step(
            f"with {shape.in_flight} in flight",
            f"{shape.clients} clients x {shape.depth}; queues hold {held}",
            f"{point.throughput:,.0f} ops/s after {show(point.response_s, Kind.TIME)}",
            mva.SOURCE,
        ),
        Step("predicted", f"the least of the queues and the thread pools; limit: {bottleneck}", f"{ops:,.0f} ops/s"),
        Step("latency", f"{shape.in_flight} / {ops:,.0f} ops/s", show(latency, Kind.TIME), "Little's law"),
    ]
    return Prediction(
        profile=profile.name,
        shape=shape,
        ops=ops,
        latency_s=latency,
        bottleneck=bottleneck,
        ceilings=found,
        utilisation={ceiling.name: ops * ceiling.busiest_s for ceiling in found},
        unloaded_s=unloaded,
        derivation=Derivation(tuple(steps)),
        unknown=_unknown(profile, work),
    )


def _loaded(found: Sequence[Ceiling], unloaded_s: float, population: int) -> tuple[mva.Point, str]:
    """MVA over the hardware; what an operation spends in service beyond the queues' own demands is a delay."""
    hardware = [ceiling for ceiling in found if ceiling.kind is not CeilingKind.THREADS]
    stations = [station for ceiling in hardware for station in _stations(ceiling)]
    queued = sum(station.seconds * station.copies for station in stations)
    point = mva.solve(stations, max(0.0, unloaded_s - queued), population)
    longest = sorted(point.residence.items(), key=lambda item: -item[1])[:3]
    return point, ", ".join(f"{name} {show(seconds, Kind.TIME)}" for name, seconds in longest)


def _stations(ceiling: Ceiling) -> list[mva.Station]:
    """The busiest of equal resources has its own line; the others share what is left."""
    if ceiling.copies == 1 or ceiling.uneven == 1:
        return [mva.Station(ceiling.name, ceiling.busiest_s, ceiling.copies)]
    rest = max(0.0, ceiling.seconds * ceiling.copies - ceiling.busiest_s) / (ceiling.copies - 1)
    return [
        mva.Station(f"the busiest of {ceiling.name}", ceiling.busiest_s),
        mva.Station(ceiling.name, rest, ceiling.copies - 1),
    ]


def _bottleneck(found: Sequence[Ceiling], ops: float) -> str:
    tightest = found[0]
    # Below this share of its ceiling no resource is what holds the operations back: there are too few of them.
    full = 0.8
    if ops * tightest.busiest_s < full:
        return f"too little in flight (next: {tightest.name})"
    return tightest.name


def _unloaded(profile: Profile, work: Work) -> tuple[float, list[Step]]:
    """Seconds of one operation alone: client, network, primary, the slowest shard, and the device's answer."""
    shape = work.shape
    slowest = max(profile.nodes, key=lambda machine: 1 / thread_speed(machine))
    asker = profile.nodes[0] if profile.clients_on_nodes else profile.clients[0]
    others = shape.copies > 1 and (shape.flow is Flow.WRITE or shape.k)
    parts = {
        "client": work.client.cpu / thread_speed(asker),
        "network": profile.rtt.value * (1 + bool(others) + shape.through_gateway),
        "primary": work.primary.cpu / thread_speed(slowest),
        "shard": work.replica.cpu / thread_speed(slowest) if others else 0.0,
        "gateway": work.gateway.cpu / thread_speed(slowest) if work.gateway else 0.0,
        "device": _device_s(slowest, shape),
        "transfer": shape.block_bytes / min(machine.bandwidth.value for machine in (*profile.nodes, asker)),
    }
    total = sum(parts.values())
    how = " + ".join(f"{name} {show(seconds, Kind.TIME)}" for name, seconds in parts.items() if seconds)
    return total, [Step("latency of one operation alone", how, show(total, Kind.TIME), "sum of service times")]


def _device_s(machine: Machine, shape: Shape) -> float:
    """Longest answer of a node's devices: a read of data, or the commit where the log is."""
    if shape.flow is Flow.READ:
        waits = [mechanics.read_latency(disks, shape) * (1 - shape.hit_ratio) for disks in machine.data_disks]
    else:
        where = machine.metadata_disks or machine.data_disks
        waits = [disks.sync_latency.value for disks in where if disks.sync_latency]
    return max(waits, default=0.0)


def _unknown(profile: Profile, work: Work) -> tuple[str, ...]:
    """What the figures leave out, as sentences."""
    found = [*work.doubts, *profile.missing]
    if work.shape.through_gateway and work.gateway is None:
        found.append("CPU of the gateways: not measured, so it is no limit here.")
    return tuple(found)
