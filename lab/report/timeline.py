"""The course of a scenario over time, from its history: operations, latencies, recovery, steps and faults."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cephlab.lab.archive.series import StepSpan
from cephlab.lab.faults.fault import EVENT as FAULT
from cephlab.lab.history.history import Event, Phase, Recorder
from cephlab.lab.history.operations import Act, Ended, Operation, operations_of
from cephlab.lab.report.plot import TONES, Graph, Mark, Panel, Series, graph

CLOCK = "clock"
"""Kind of the event that says when the clock of the history began: {epoch_s}."""

_BINS = 160
_LEAST_BIN_S = 0.25
_PERCENTILES = (50.0, 95.0, 99.0)
_WORDS = {Act.WRITE: "writes", Act.READ: "reads"}


@dataclass(frozen=True)
class TimelineStep:
    """One step, or one fault. at_s: since the load began; seconds: how long it took, None if it did not end."""

    number: int
    name: str
    at_s: float
    seconds: float | None


@dataclass(frozen=True)
class Answers:
    """How long one client's acknowledged operations of one kind took. times_ms: p50, p95, p99 and the longest."""

    what: str
    count: int
    times_ms: tuple[float, ...]


@dataclass(frozen=True)
class Timeline:
    """graph: the chart; steps: what its numbers mean; answers: latencies of the same operations over the whole time."""

    graph: Graph
    steps: tuple[TimelineStep, ...]
    answers: tuple[Answers, ...] = ()


def timeline(events: Sequence[Event]) -> Timeline | None:
    """The course of a scenario that recorded operations, else None."""
    operations = [op for op in operations_of(events) if op.act is not Act.FINAL]
    if not operations:
        return None
    origin = operations[0].began_s
    steps = steps_of(events, origin)
    panels = [_rate(operations, origin), *_latency(operations, origin), *_samples(events, origin)]
    marks = [Mark(step.at_s, step.name, step.at_s + step.seconds if step.seconds else None) for step in steps]
    drawn = graph(panels, marks, name="operations, latencies, recovery and degraded objects over time")
    return Timeline(drawn, steps, tuple(_answers(operations)))


def rates(operations: Sequence[Operation], origin: float) -> tuple[tuple[float, float], ...]:
    """(seconds since origin, acknowledged operations per second), in bins of equal width."""
    ends = _answered(operations, origin)[:, 0]
    if not ends.size:
        return ()
    width = _bin_s(ends)
    counts = Counter(int(end / width) for end in ends)
    # The last bin is cut off by the end of the load.
    return tuple((number * width, counts[number] / width) for number in range(max(1, *counts)))


def _answered(operations: Sequence[Operation], origin: float) -> NDArray[np.float64]:
    """Of each acknowledged operation: when it ended, in seconds since origin, and how long it took, in ms."""
    pairs = [
        (op.ended_s - origin, 1e3 * (op.ended_s - op.began_s))
        for op in operations
        if op.ended_s is not None and op.outcome is Ended.OK
    ]
    return np.asarray(pairs, dtype=np.float64).reshape(-1, 2)


def _bin_s(ends: NDArray[np.float64]) -> float:
    return max(_LEAST_BIN_S, float(ends.max()) / _BINS)


def _latency(operations: Sequence[Operation], origin: float) -> Iterator[Panel]:
    """Latency percentiles over all clients, by when an operation ended. The line has a gap where none did."""
    answered = _answered(operations, origin)
    if not answered.size:
        return
    width = _bin_s(answered[:, 0])
    bins = (answered[:, 0] / width).astype(int)
    nothing = np.full(len(_PERCENTILES), np.nan)
    ended = {n: np.percentile(answered[bins == n, 1], _PERCENTILES) for n in np.unique(bins)}
    points = [(n * width, ended.get(n, nothing)) for n in range(bins.min(), bins.max() + 1)]
    yield Panel(
        "latency of acknowledged operations, ms",
        tuple(
            Series(f"p{percent:g}", tuple((float(at), round(float(values[index]), 3)) for at, values in points), tone)
            for index, (percent, tone) in enumerate(zip(_PERCENTILES, TONES, strict=False))
        ),
    )


def _answers(operations: Sequence[Operation]) -> Iterator[Answers]:
    for client in sorted({op.client for op in operations}):
        for act, word in _WORDS.items():
            times = _answered([op for op in operations if op.client == client and op.act is act], 0.0)[:, 1]
            if times.size:
                percentiles = (*np.percentile(times, _PERCENTILES), times.max())
                yield Answers(f"{word} of {client}", int(times.size), tuple(map(float, percentiles)))


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
    yield Panel("degraded and misplaced objects", (degraded, misplaced))


def steps_of(events: Sequence[Event], origin: float) -> tuple[TimelineStep, ...]:
    """The steps and faults of a scenario, numbered in the order in which they began; times since origin."""
    ordered = sorted([*_steps(events, origin), *_faults(events, origin)], key=lambda step: step[0])
    return tuple(TimelineStep(number, name, at_s, seconds) for number, (at_s, name, seconds) in enumerate(ordered, 1))


def note_clock(recorder: Recorder, epoch_s: float) -> None:
    """Record when the clock of the history began, in seconds since the epoch: series use that clock."""
    recorder.record(CLOCK, epoch_s=epoch_s)


def spans_of(events: Sequence[Event]) -> Iterator[StepSpan]:
    """The steps and faults of every scenario that recorded the clock. Those that did not end have a length of 0."""
    for clock in (event for event in events if event.kind == CLOCK):
        own = [event for event in events if event.scenario == clock.scenario]
        for step in steps_of(own, -clock.data["epoch_s"]):
            yield StepSpan(clock.scenario, step.name, step.at_s, step.at_s + (step.seconds or 0.0))


def _steps(events: Sequence[Event], origin: float) -> Iterator[tuple[float, str, float | None]]:
    """Each step with its own time, although there may be several of one name."""
    steps = [event for event in events if event.kind == "step"]
    ends: dict[str, list[float | None]] = {}
    for event in steps:
        if event.data["phase"] == Phase.ENDED:
            ends.setdefault(event.data["name"], []).append(event.data["seconds"])
    for event in steps:
        name = event.data["name"]
        if event.data["phase"] == Phase.BEGAN:
            yield event.at_s - origin, name, ends[name].pop(0) if ends.get(name) else None
        elif event.data["phase"] != Phase.ENDED:
            yield event.at_s - origin, name, None


def _faults(events: Sequence[Event], origin: float) -> Iterator[tuple[float, str, float | None]]:
    """Each fault, from when it was injected until it was healed."""
    began: dict[str, float] = {}
    for event in events:
        if event.kind != FAULT:
            continue
        name = f"{event.data['fault']} of {event.data['target']}"
        if event.data["phase"] == "broken":
            began[name] = event.at_s
        elif event.data["phase"] == "healed" and name in began:
            at_s = began.pop(name)
            yield at_s - origin, name, event.at_s - at_s
    yield from ((at_s - origin, f"{name}, not healed", None) for name, at_s in began.items())
