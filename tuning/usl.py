"""The universal scalability law, fitted to measured throughput against clients: where more clients do less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy

from cephlab.lab.base.errors import SpecError

SOURCE = "X(N) = l N / (1 + s (N - 1) + k N (N - 1)) (Gunther 1993; Gunther, Guerrilla Capacity Planning, 2007)"
LEAST_POINTS = 4
"""Three parameters need more than three points to be judged."""


@dataclass(frozen=True)
class Scalability:
    """rate: of one client; contention: share that is serial; coherency: cost of each pair of clients agreeing.

    error: root mean square of the relative residuals.
    """

    rate: float
    contention: float
    coherency: float
    error: float

    def throughput(self, clients: float) -> float:
        """Operations a second of so many clients."""
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
