"""Runs of sysbench in a history: what each second did, and which cache was between the database and its disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cephlab.lab.history.history import Event

WARM_S = 2
"""Seconds of each run that do not count, as buffer pool and cache are cold."""
KIND = "oltp"

Look = Mapping[str, Any]


@dataclass(frozen=True)
class OltpRun:
    """One run. scenario: with the archive's name, where there are several; cache: none, tier, or a mode of dm-cache.

    tps, p95_ms, hits: second by second; hits as a share of accesses, empty without a cache. evicted: how much the cache
    evicted; block_bytes: of dm-cache, else 0.
    """

    scenario: str
    cache: str
    threads: int
    rows: int
    block_bytes: int
    tps: tuple[float, ...]
    p95_ms: tuple[float, ...]
    hits: tuple[float, ...]
    evicted: int


def runs(events: Sequence[Event]) -> list[OltpRun]:
    """Every run whose event names the cache; older histories do not name it."""
    ended = []
    looks: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        if event.kind in _COUNTS:
            looks.setdefault((event.scenario, event.data["stand"]), []).append(event)
        elif event.kind == KIND and "cache" in event.data:
            # Labels repeat in the next round: counters that were read so far belong to this run alone.
            ended.append(_run(event, looks.pop((event.scenario, event.data["stand"]), [])))
    return ended


def _run(event: Event, looks: Sequence[Event]) -> OltpRun:
    data = event.data
    steady = [sample for sample in data["samples"] if sample["at_s"] > WARM_S]
    counts = [_COUNTS[look.kind](look.data) for look in looks]
    return OltpRun(
        scenario=event.scenario,
        cache=data["cache"],
        threads=data["threads"],
        rows=data["rows"],
        block_bytes=data["block_bytes"],
        tps=tuple(sample["tps"] for sample in steady),
        # A second in which nothing was committed has no latency.
        p95_ms=tuple(sample["p95_ms"] for sample in steady if sample["p95_ms"] > 0),
        hits=tuple(_shares(counts[WARM_S:])),
        evicted=counts[-1][2] - counts[0][2] if counts else 0,
    )


def _shares(counts: Sequence[tuple[int, int, int]]) -> Iterator[float]:
    for (hits, misses, _), (more_hits, more_misses, _) in pairwise(counts):
        asked = more_hits - hits + more_misses - misses
        if asked > 0:
            yield (more_hits - hits) / asked


def _of_dmcache(look: Look) -> tuple[int, int, int]:
    hits = look.get("read_hits", 0) + look.get("write_hits", 0)
    return hits, look.get("read_misses", 0) + look.get("write_misses", 0), look.get("demotions", 0)


def _of_tier(look: Look) -> tuple[int, int, int]:
    counters = look["counters"]
    passed = counters["tier_proxy_read"] + counters["tier_proxy_write"]
    return int(counters["op_cache_hit"]), int(passed), int(counters["tier_evict"])


_COUNTS: Mapping[str, Callable[[Look], tuple[int, int, int]]] = {"cache": _of_dmcache, "tier": _of_tier}
"""Kind of event -> (hits, misses, evictions) so far."""
