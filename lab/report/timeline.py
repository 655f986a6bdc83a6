"""A scenario's course over time from its history: client operations, recovery, degraded objects, and its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.history import Event
from lab.operations import Act, Operation, Outcome, operations_of
from lab.plot import Mark, Panel, Series, chart

_BINS = 160
_LEAST_BIN_S = 0.25


@dataclass(frozen=True)
class Step:
    """One step. at_s: since the load began; seconds: how long it took, None when it did not end."""

    number: int
    name: str
    at_s: float
    seconds: float | None


@dataclass(frozen=True)
class Timeline:
    """svg: the chart; steps: what its numbers mean."""

    svg: str
    steps: tuple[Step, ...]


def timeline(events: Sequence[Event]) -> Timeline | None:
    """The course of a scenario that recorded operations; None of any other."""
    operations = [one for one in operations_of(events) if one.act is not Act.FINAL]
    if not operations:
        return None
    origin = operations[0].began_s
    steps = tuple(_steps(events, origin))
    panels = [_rate(operations, origin), *_samples(events, origin)]
    marks = [Mark(step.at_s, step.name) for step in steps]
    return Timeline(chart(panels, marks, name="operations, recovery and degraded objects over time"), steps)


def rates(operations: Sequence[Operation], origin: float) -> tuple[tuple[float, float], ...]:
    """(seconds since origin, acknowledged operations a second), in bins of equal width."""
    ends = [one.ended_s - origin for one in operations if one.ended_s is not None and one.outcome is Outcome.OK]
    if not ends:
        return ()
    width = max(_LEAST_BIN_S, max(ends) / _BINS)
    counts = Counter(int(end / width) for end in ends)
    # The last bin is cut off by the end of the load.
    return tuple((number * width, counts[number] / width) for number in range(max(1, *counts)))


def _rate(operations: Sequence[Operation], origin: float) -> Panel:
    clients = sorted({one.client for one in operations})
    tones = ("var(--pass, #1a7f4b)", "var(--skip, #33698c)", "var(--error, #8a3ba8)", "var(--inconclusive, #9a6700)")
    series = [
        Series(client, rates([one for one in operations if one.client == client], origin), tones[number % len(tones)])
        for number, client in enumerate(clients)
    ]
    return Panel("acknowledged client operations per second", tuple(series))


def _samples(events: Sequence[Event], origin: float) -> Iterator[Panel]:
    samples = [(event.at_s - origin, event.data) for event in events if event.kind == "sample"]
    known = [(at, data) for at, data in samples if "unavailable" not in data]
    if not known:
        return
    recovery = tuple((at, float(data["recovering_bytes_s"])) for at, data in known)
    yield Panel("recovery, bytes per second", (Series("recovery", recovery, "var(--skip, #33698c)", stepped=True),))
    yield Panel(
        "objects without all their copies, or with copies elsewhere",
        (
            _count(known, "degraded", "var(--fail, #c22f2f)"),
            _count(known, "misplaced", "var(--inconclusive, #9a6700)"),
        ),
    )


def _count(known: Sequence[tuple[float, object]], name: str, tone: str) -> Series:
    points = tuple((at, float(data[name])) for at, data in known if isinstance(data, dict))
    return Series(name, points, tone, stepped=True)


def _steps(events: Sequence[Event], origin: float) -> Iterator[Step]:
    ended = {event.data["name"]: event.data for event in events if event.kind == "step" and _phase(event) == "ended"}
    shown = [event for event in events if event.kind == "step" and _phase(event) in {"began", "reached"}]
    for number, event in enumerate(shown, 1):
        name = event.data["name"]
        yield Step(number, name, event.at_s - origin, ended.get(name, {}).get("seconds"))


def _phase(event: Event) -> str:
    return str(event.data["phase"])
