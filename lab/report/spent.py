"""Where a run's time went: raising clusters, looking around scenarios, waits, programs, and the scenarios' own work."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.archive.archive import Archive
from cephlab.lab.history.history import Event, Recorder

KIND = "spent"
BEFORE, AROUND, REST = "before", "around", "its own work"
"""BEFORE: until its cluster is healthy, raised or reused. AROUND: how things stand before and after it."""

_LEAST_S = 0.05


@dataclass(frozen=True)
class Spent:
    """seconds: in `scenarios` scenarios together."""

    what: str
    seconds: float
    scenarios: int


def record_spent(recorder: Recorder, seconds: Mapping[str, float]) -> None:
    """Note what a scenario's time went to, the longest first; seconds: as `clock.accounted` adds them up."""
    longest = sorted(seconds.items(), key=lambda part: -part[1])
    recorder.record(KIND, seconds={what: round(taken, 3) for what, taken in longest if taken >= _LEAST_S})


def spent_in(events: Sequence[Event], seconds: float) -> dict[str, float]:
    """What a scenario's time went to, its own work included. seconds: from its beginning to its end.

    Empty for one that has no account, as those of older archives.
    """
    account = next((dict(event.data["seconds"]) for event in events if event.kind == KIND), None)
    if account is None:
        return {}
    within = sum(taken for what, taken in account.items() if not what.startswith(f"{BEFORE}: "))
    return {**account, REST: max(0.0, round(seconds - within, 3))}


def spent(archive: Archive) -> Iterator[Spent]:
    """The same over a whole run, the longest first."""
    seconds: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    for record in archive.records:
        parts = spent_in(archive.of(record.scenario), record.seconds)
        seconds.update(parts)
        scenarios.update(parts.keys())
    for what, taken in seconds.most_common():
        if taken >= _LEAST_S:
            yield Spent(what, taken, scenarios[what])
