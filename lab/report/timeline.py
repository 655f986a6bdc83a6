"""A scenario's course over time from its history: client operations, recovery, degraded objects, and its steps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cephlab.lab.history.history import Event, Phase
from cephlab.lab.history.operations import Act, Ended, Operation, operations_of
from cephlab.lab.report.plot import TONES, Mark, Panel, Series, chart

_BINS = 160
_LEAST_BIN_S = 0.25


@dataclass(frozen=True)
class TimelineStep:
    """One step. at_s: since the load began; seconds: how long it took, None when it did not end."""

    number: int
    name: str
    at_s: float
    seconds: float | None


@dataclass(frozen=True)
class Timeline:
    """svg: the chart; steps: what its numbers mean."""

    svg: str
    steps: tuple[TimelineStep, ...]


def timeline(events: Sequence[Event]) -> Timeline | None:
    """The course of a scenario that recorded operations; None of any other."""
    operations = [op for op in operations_of(events) if op.act is not Act.FINAL]
    if not operations:
        return None
    origin = operations[0].began_s
    steps = tuple(_steps(events, origin))
    panels = [_rate(operations, origin), *_samples(events, origin)]
    marks = [Mark(step.at_s, step.name) for step in steps]
    return Timeline(chart(panels, marks, name="operations, recovery and degraded objects over time"), steps)


def rates(operations: Sequence[Operation], origin: float) -> tuple[tuple[float, float], ...]:
    """(seconds since origin, acknowledged operations a second), in bins of equal width."""
    ends = [op.ended_s - origin for op in operations if op.ended_s is not None and op.outcome is Ended.OK]
    if not ends:
        return ()
    width = max(_LEAST_BIN_S, max(ends) / _BINS)
    counts = Counter(int(end / width) for end in ends)
    # The last bin is cut off by the end of the load.
    return tuple((number * width, counts[number] / width) for number in range(max(1, *counts)))


def _rate(operations: Sequence[Operation], origin: float) -> Panel:
    clients = sorted({op.client for op in operations})
    series = []
    for number, client in enumerate(clients):
        points = rates([op for op in operations if op.client == client], origin)
        series.append(Series(client, points, TONES[number % len(TONES)]))
    return Panel("acknowledged client operations per second", tuple(series))


def _samples(events: Sequence[Event], origin: float) -> Iterator[Panel]:
    samples = [(event.at_s - origin, event.data) for event in events if event.kind == "sample"]
    known = [(at, data) for at, data in samples if "unavailable" not in data]
    if not known:
        return

    def line(label: str, key: str, tone: str) -> Series:
        return Series(label, tuple((at, float(data[key])) for at, data in known), tone, stepped=True)

    yield Panel("recovery, bytes per second", (line("recovery", "recovering_bytes_s", "var(--skip, #33698c)"),))
    degraded = line("degraded", "degraded", "var(--fail, #c22f2f)")
    misplaced = line("misplaced", "misplaced", "var(--inconclusive, #9a6700)")
    yield Panel("objects without all their copies, or with copies elsewhere", (degraded, misplaced))


def _steps(events: Sequence[Event], origin: float) -> Iterator[TimelineStep]:
    steps = [event for event in events if event.kind == "step"]
    ended = {event.data["name"]: event.data for event in steps if event.data["phase"] == Phase.ENDED}
    for number, event in enumerate((event for event in steps if event.data["phase"] != Phase.ENDED), 1):
        name = event.data["name"]
        yield TimelineStep(number, name, event.at_s - origin, ended.get(name, {}).get("seconds"))
