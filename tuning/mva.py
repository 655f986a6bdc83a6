"""Queueing: asymptotic bounds and exact mean value analysis of a closed network of single-class stations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SOURCE = "mean value analysis (Reiser and Lavenberg 1980); several servers by Seidmann et al. 1987"
BOUNDS = "asymptotic bounds X <= min(N / (D + Z), 1 / Dmax) (Denning and Buzen 1978; Lazowska et al. 1984, chapter 5)"


@dataclass(frozen=True)
class Station:
    """A queue that `copies` equal servers form, each with its own line. seconds: demand of an operation at EACH."""

    name: str
    seconds: float
    copies: int = 1


@dataclass(frozen=True)
class Point:
    """The network with `population` operations in flight. throughput: a second; residence: station -> seconds."""

    population: int
    throughput: float
    response_s: float
    residence: dict[str, float]


def solve(stations: Sequence[Station], delay_s: float, population: int) -> Point:
    """Exact MVA for one closed class.

    delay_s: time that an operation spends where it never queues. population: operations in flight, at least 1.
    R_k(n) = D_k (1 + Q_k(n-1)); X(n) = n / (Z + sum R_k); Q_k(n) = X(n) R_k(n).
    """
    queues = [0.0] * len(stations)
    throughput, residence = 0.0, [0.0] * len(stations)
    for n in range(1, population + 1):
        residence = [station.seconds * (1 + queue) for station, queue in zip(stations, queues, strict=True)]
        whole = delay_s + sum(r * s.copies for r, s in zip(residence, stations, strict=True))
        throughput = n / whole
        queues = [throughput * r for r in residence]
    held = {s.name: r * s.copies for s, r in zip(stations, residence, strict=True)}
    return Point(population, throughput, population / throughput, held)


def bound(stations: Sequence[Station], delay_s: float, population: int) -> float:
    """The most operations a second that any network of these demands can do with `population` in flight."""
    demand = sum(station.seconds * station.copies for station in stations)
    tightest = max((station.seconds for station in stations), default=0.0)
    light = population / (demand + delay_s)
    return min(light, 1 / tightest) if tightest else light
