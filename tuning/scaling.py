"""The universal scalability law, fitted to measurements with several numbers of clients: where throughput falls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path

import numpy

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE
from cephlab.tuning.workload import Shape

LEAST_POINTS = 4
"""Three parameters need more than three points to be judged."""
LARGEST_ERROR = 0.10
"""Root mean square of the relative residuals. Beyond it the points do not follow the law."""


@dataclass(frozen=True)
class Scalability:
    """rate: of one client; contention: share that is serial; coherency: cost of each pair of clients agreeing.

    X(N) = rate N / (1 + contention (N - 1) + coherency N (N - 1)) (Gunther, Guerrilla Capacity Planning, 2007).
    error: root mean square of the relative residuals.
    """

    rate: float
    contention: float
    coherency: float
    error: float

    def throughput(self, clients: float) -> float:
        """Operations a second with this many clients."""
        n = clients
        return self.rate * n / (1 + self.contention * (n - 1) + self.coherency * n * (n - 1))

    @property
    def peak(self) -> float | None:
        """Clients beyond which throughput falls; None when it never does."""
        return sqrt((1 - self.contention) / self.coherency) if self.coherency > 0 else None


def fit(points: Sequence[tuple[float, float]]) -> Scalability:
    """Fit to (clients, operations a second) by least squares of N / X; SpecError for too few numbers of clients.

    N / X = 1/l + s/l (N - 1) + k/l N (N - 1) is linear in its three coefficients. A negative one has no meaning, so
    fits with fewer terms are tried too.
    """
    if len({n for n, _ in points}) < LEAST_POINTS:
        raise SpecError(
            "too few points for the scalability law",
            f"got {len({n for n, _ in points})} different numbers of clients, wanted {LEAST_POINTS} or more",
        )
    if any(n <= 0 or x <= 0 for n, x in points):
        raise SpecError("points of the scalability law must be above zero", str(list(points)))
    laws = [_solved(points, terms) for terms in ((0, 1, 2), (0, 1), (0, 2), (0,))]
    return min((law for law in laws if law is not None), key=lambda law: law.error)


def _solved(points: Sequence[tuple[float, float]], terms: tuple[int, ...]) -> Scalability | None:
    """The law with these terms: 0 for 1, 1 for N - 1, 2 for N (N - 1); None where the fit is no law."""
    rows = [[(1.0, n - 1, n * (n - 1))[term] for term in terms] for n, _ in points]
    values = [n / x for n, x in points]
    coefficients = dict(zip(terms, numpy.linalg.lstsq(rows, values)[0].tolist(), strict=True))
    base = coefficients[0]
    if base <= 0:
        return None
    contention, coherency = coefficients.get(1, 0.0) / base, coefficients.get(2, 0.0) / base
    if contention < 0 or coherency < 0 or contention > 1:
        return None
    law = Scalability(1 / base, contention, coherency, 0.0)
    residuals = [(law.throughput(n) / x - 1) ** 2 for n, x in points]
    return replace(law, error=sqrt(sum(residuals) / len(residuals)))


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
            f"scalability law: {self.law.throughput(clients):,.0f} ops/s with {how_many(clients, 'client')}, {top} "
            f"(contention {self.law.contention:.3f}, coherency {self.law.coherency:.4f}; {self.why})"
        )


def scaling(folder: Path, profile: Profile, shape: Shape) -> Scaling:
    """The law for a shape from the measurements of a folder (`cephlab measure --clients N` puts them there).

    Its parameters hold only for the measured machines. For other hardware the model's queues predict how clients slow
    each other down.
    """
    if profile.name != THIS_MACHINE:
        return Scaling(None, f"its parameters hold for measured machines only, and {profile.name} was not measured")
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
        off = percent(law.error, ".0f")
        return Scaling(None, f"{len(points)} points do not follow it: they are off by {off}", points)
    return Scaling(law, f"fitted to {len(points)} points within {percent(law.error)}", points)


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
