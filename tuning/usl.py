"""The universal scalability law, fitted to measured throughput against clients: where contention makes more be less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from lab.errors import SpecError

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
    """Fit to (clients, operations a second), by linear least squares of N / X, its parameters never below zero.

    N / X = (1 - s)/l + (s - k)/l N + k/l N^2 is linear in a, b, c. Raises SpecError when there are fewer than
    LEAST_POINTS different numbers of clients: the data does not support a law with three parameters.
    """
    if len({n for n, _ in points}) < LEAST_POINTS:
        raise SpecError(
            "too few points for the scalability law",
            f"got {len({n for n, _ in points})} different numbers of clients, wanted {LEAST_POINTS} or more",
        )
    if any(n <= 0 or x <= 0 for n, x in points):
        raise SpecError("points of the scalability law must be above zero", str(list(points)))
    return min((_solved(points, terms) for terms in ((0, 1, 2), (0, 1), (0, 2), (0,))), key=lambda one: one.error)


def _solved(points: Sequence[tuple[float, float]], terms: tuple[int, ...]) -> Scalability:
    """Least squares of 1 / X x N over powers of (N - 1), only with the terms named; negative ones count as unfit."""
    rows = [[(1.0, n - 1, n * (n - 1))[term] for term in terms] for n, _ in points]
    values = [n / x for n, x in points]
    found = dict(zip(terms, _least_squares(rows, values), strict=True))
    base = found[0]
    if base <= 0:
        return Scalability(1.0, 0.0, 0.0, float("inf"))
    contention, coherency = found.get(1, 0.0) / base, found.get(2, 0.0) / base
    made = Scalability(1 / base, contention, coherency, 0.0)
    if contention < 0 or coherency < 0 or contention > 1:
        return Scalability(made.rate, contention, coherency, float("inf"))
    residuals = [(made.throughput(n) / x - 1) ** 2 for n, x in points]
    return Scalability(made.rate, contention, coherency, sqrt(sum(residuals) / len(residuals)))


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Normal equations by Gauss elimination with pivots; a few unknowns only."""
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)]
        + [sum(row[i] * value for row, value in zip(rows, values, strict=True))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda row: abs(matrix[row][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for row in range(size):
            if row != i:
                factor = matrix[row][i] / matrix[i][i]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]
