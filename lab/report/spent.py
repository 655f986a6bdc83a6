"""Where the time of a run went: raising clusters, checks around scenarios, waits, programs, and own work."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.archive.archive import Archive
from cephlab.lab.history.history import Event, Recorder

KIND = "spent"
BEFORE, AROUND, REST = "before", "around", "its own work"
"""BEFORE: until the cluster, raised or reused, is healthy. AROUND: checks of it before and after the scenario."""

_LEAST_S = 0.05


@dataclass(frozen=True)
class Spent:
    """seconds: the sum over `scenarios` scenarios."""

    what: str
    seconds: float
    scenarios: int


def record_spent(recorder: Recorder, seconds: Mapping[str, float]) -> None:
    """Record where a scenario's time went, the longest first; seconds: as `clock.accounted` adds them up."""
    longest = sorted(seconds.items(), key=lambda part: -part[1])
    recorder.record(KIND, seconds={what: round(taken, 3) for what, taken in longest if taken >= _LEAST_S})


def spent_in(events: Sequence[Event], seconds: float) -> dict[str, float]:
    """Where a scenario's time went, including its own work. seconds: from its beginning to its end.

    Empty if it has no account, as in older archives.
    """
    account = next((dict(event.data["seconds"]) for event in events if event.kind == KIND), None)
    if account is None:
        return {}
    within = sum(seconds_of for what, seconds_of in account.items() if not what.startswith(f"{BEFORE}: "))
    return {**account, REST: max(0.0, round(seconds - within, 3))}


def spent(archive: Archive) -> Iterator[Spent]:
    """The same over a whole run, the longest first."""
    seconds: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    for record in archive.records:
        parts = spent_in(archive.of(record.scenario), record.seconds)
        seconds.update(parts)
        scenarios.update(parts.keys())
    for what, seconds_of in seconds.most_common():
        if seconds_of >= _LEAST_S:
            yield Spent(what, seconds_of, scenarios[what])
