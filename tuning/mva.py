"""Queueing: asymptotic bounds and mean value analysis of a closed network whose operations fork into shards."""

from collections.abc import Sequence
from dataclasses import dataclass

SOURCE = (
    "mean value analysis R = R(1) + sum of waits, Q(n) = X(n) D (1 + Q(n-1)) (Reiser and Lavenberg 1980; several "
    "servers by Seidmann et al. 1987; forks as Varki 1999; beyond a cap Q(n-1) = Q(n) (n-1) / n, Schweitzer 1979)"
)
BOUNDS = "asymptotic bounds X <= min(N / R(1), 1 / Dmax) (Denning and Buzen 1978; Lazowska et al. 1984, chapter 5)"
DEMAND = "service demand D = visits x service time; an operation waits for all of it (Denning and Buzen 1978)"
FORK = "the longest of k equal waits takes up to 1 + 1/2 ... + 1/k of one (Nelson and Tantawi 1988)"

EXACT_POPULATION = 200
"""Operations in flight up to which the recursion is carried out. Beyond it
Schweitzer's fixed point is used, which takes no longer for more of them."""

_HALVINGS = 54
"""Slightly more than the bits of a float's fraction."""


@dataclass(frozen=True)
class Station:
    """Equal servers, each with its own queue. seconds: demand of an operation at EACH of them.

    wait: the part of `seconds` that the operation waits for; None: all of it. The rest is work for its other shards,
    which keeps the server busy while the operation waits elsewhere.
    """

    name: str
    seconds: float
    copies: float = 1
    wait: float | None = None

    @property
    def waits(self) -> float:
        return self.seconds if self.wait is None else self.wait


@dataclass(frozen=True)
class Point:
    """The network with `population` operations in flight. throughput: a second; queued: station -> seconds waited."""

    population: int
    throughput: float
    response_s: float
    queued: dict[str, float]


def harmonic(k: int) -> float:
    """1 + 1/2 + ... + 1/k: mean of the longest of k exponential waits over the mean of one; 0 for none."""
    return sum(1 / rank for rank in range(1, k + 1))


def solve(stations: Sequence[Station], alone_s: float, population: int) -> Point:
    """Throughput and response of one closed class.

    alone_s: the time of an operation when there is no other. population: operations in flight, at least 1.
    R(n) = alone + sum W_k Q_k(n-1); X(n) = n / R(n), never above 1 / Dmax; Q_k(n) = X(n) D_k (1 + Q_k(n-1)). Without
    forks W_k = D_k, and this is exact MVA with the delay Z = alone - sum D_k.
    """
    tightest = max((station.seconds for station in stations), default=0.0)
    most = 1 / tightest if tightest else float("inf")
    queues = [0.0] * len(stations)
    throughput, waits = 0.0, [0.0] * len(stations)
    demands, waited = [s.seconds for s in stations], [s.waits * s.copies for s in stations]
    for n in range(1, min(population, EXACT_POPULATION) + 1):
        waits = [wait * queue for wait, queue in zip(waited, queues, strict=True)]
        throughput = min(n / (alone_s + sum(waits)), most)
        queues = [throughput * seconds * (1 + queue) for seconds, queue in zip(demands, queues, strict=True)]
    if population > EXACT_POPULATION:
        more, waits = _many(stations, alone_s, population)
        # More in flight never lowers throughput. The fixed point is approximate and may lie below the exact recursion.
        throughput = max(throughput, more)
    queue_s = {s.name: waited for s, waited in zip(stations, waits, strict=True)}
    return Point(population, throughput, population / throughput, queue_s)


def _many(stations: Sequence[Station], alone_s: float, population: int) -> tuple[float, list[float]]:
    """(throughput, waits) of Schweitzer's fixed point, between the asymptotic bounds."""
    less = (population - 1) / population
    parts = [(s.waits * s.copies * less, s.seconds) for s in stations]

    def waits(rate: float) -> list[float]:
        return [waited * _queue(rate * seconds, less) for waited, seconds in parts]

    low, high = 0.0, bound(stations, alone_s, population)
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        if rate * (alone_s + sum(waits(rate))) > population:
            high = rate
        else:
            low = rate
    return low, waits(low)


def _queue(busy: float, less: float) -> float:
    """Queue at a server with utilisation `busy`: Q = U (1 + Q less), solved for Q, and finite at U = 1."""
    return busy / max(1e-300, 1 - busy * less)


def bound(stations: Sequence[Station], alone_s: float, population: int) -> float:
    """The most operations a second that any network of these demands can do with `population` in flight."""
    tightest = max((station.seconds for station in stations), default=0.0)
    light = population / alone_s
    return min(light, 1 / tightest) if tightest else light
