"""Scaling by measurements with several clients: the universal scalability law, where there are enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE
from cephlab.tuning.usl import LEAST_POINTS, Scalability, fit
from cephlab.tuning.workload import Shape

LARGEST_ERROR = 0.10
"""Root mean square of the relative residuals beyond which the points do not follow the law."""


@dataclass(frozen=True)
class Scaling:
    """law: None where it does not apply; why: the reason; points: (clients, operations a second), measured."""

    law: Scalability | None
    why: str
    points: tuple[tuple[float, float], ...] = ()

    def words(self, clients: int) -> str:
        """One line for a reader."""
        if self.law is None:
            return f"scalability law: not applied, {self.why}"
        peak = self.law.peak
        top = "never falls" if peak is None else f"falls beyond {peak:.0f} clients"
        return (
            f"scalability law: {self.law.throughput(clients):,.0f} ops/s with {clients} client(s), {top} "
            f"(contention {self.law.contention:.3f}, coherency {self.law.coherency:.4f}; {self.why})"
        )


def scaling(folder: Path, profile: Profile, shape: Shape) -> Scaling:
    """The law for a shape from the measurements of a folder (`cephlab measure --clients N` puts them there).

    Its parameters hold only for the measured machines. For other hardware the model's queues predict how clients slow
    each other down.
    """
    if profile.name != THIS_MACHINE:
        return Scaling(None, f"its parameters are those of machines that were measured, and {profile.name} was not")
    points = tuple(sorted(measured_points(_measured(folder), shape)))
    if len({clients for clients, _ in points}) < LEAST_POINTS:
        counts = ", ".join(f"{clients:g}" for clients in sorted({clients for clients, _ in points})) or "none"
        return Scaling(
            None,
            f"measured with these numbers of clients: {counts}; wanted {LEAST_POINTS} different ones "
            f"(`cephlab measure --clients N --depth {shape.depth}`)",
            points,
        )
    law = fit(points)
    if law.error > LARGEST_ERROR:
        return Scaling(None, f"{len(points)} points do not follow it, they are {law.error:.0%} off", points)
    return Scaling(law, f"fitted to {len(points)} points within {law.error:.1%}", points)


def measured_points(measured: Iterable[Measurement], shape: Shape) -> list[tuple[float, float]]:
    """(clients, operations a second) of measurements that differ from the shape only in the number of clients."""
    wanted = shape.as_operation()
    return [
        (float(measurement.demand.operation.clients), float(measurement.conditions["iops"]))
        for measurement in measured
        if "iops" in measurement.conditions
        and not measurement.demand.emulated
        and (
            measurement.demand.operation.name,
            measurement.demand.operation.block_bytes,
            measurement.demand.operation.depth,
        )
        == (wanted.name, wanted.block_bytes, wanted.depth)
        and (measurement.demand.operation.shards, measurement.demand.operation.k) == (wanted.shards, wanted.k)
    ]


def _measured(folder: Path) -> list[Measurement]:
    """Every measurement of a folder; files of other versions of cephlab are skipped."""
    measurements: list[Measurement] = []
    for path in sorted(folder.glob("*.json")):
        try:
            measurements += demandfile.load_measurements(path)
        except SpecError:
            continue
    return measurements
