"""How clients were served: errors, the longest wait, and how long the cluster took to be healthy, against limits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lab.checks.verdict import Outcome, Verdict, merge
from lab.history import Event
from lab.operations import Act, Operation, operations_of
from lab.operations import Outcome as Ended

_SHOWN = 10

Ends = Mapping[tuple[str, int], float]
"""(load, run) -> seconds of the history."""


def service(events: Sequence[Event]) -> Verdict:
    """Judge `operations` and `figure` events against `limit` events ({metric, high, unit, why}).

    Metrics of its own: client_errors, longest_wait_s, longest_gap_s; others come as `figure` ({metric, value, unit}).
    A metric without a limit is shown and not judged; a limit without its metric, or without an operation, is
    inconclusive.
    """
    meanwhile = [one for one in operations_of(events) if one.act is not Act.FINAL]
    ends = ends_of(events)
    figures = [("client_errors", float(len(errors(meanwhile))), "")] if meanwhile else []
    if any(one.outcome is Ended.OK for one in meanwhile):
        figures += [
            ("longest_wait_s", longest_wait_s(meanwhile, ends), "s"),
            ("longest_gap_s", longest_gap_s(meanwhile, ends), "s"),
        ]
    figures += [(one.data["metric"], float(one.data["value"]), one.data["unit"]) for one in _kind(events, "figure")]
    limits = {one.data["metric"]: one.data for one in _kind(events, "limit")}
    verdicts = [_judge(metric, value, unit, limits.get(metric)) for metric, value, unit in figures]
    known = {metric for metric, _, _ in figures}
    verdicts += [Verdict(Outcome.INCONCLUSIVE, f"{name} was not measured") for name in limits if name not in known]
    verdicts += [
        Verdict(Outcome.PASS, "errors", (line,)) for line in [_word(one) for one in errors(meanwhile)][:_SHOWN]
    ]
    merged = merge(verdicts)
    if merged.outcome is Outcome.PASS:
        return Verdict(Outcome.PASS, ", ".join(_said(*figure) for figure in figures), merged.derivation)
    return merged


def _judge(metric: str, value: float, unit: str, limit: Mapping[str, Any] | None) -> Verdict:
    said = _said(metric, value, unit)
    if not math.isfinite(value):
        text = f"cannot tell, not a finite number: {said}"
        return Verdict(Outcome.INCONCLUSIVE, text, (text,))
    if limit is None:
        return Verdict(Outcome.PASS, said, (f"{said} (no limit)",))
    held = value <= limit["high"]
    line = f"{said}, at most {limit['high']:g} {limit['unit']}".strip() + f": {limit['why']}"
    return Verdict(Outcome.PASS if held else Outcome.FAIL, line, (line,))


def _said(metric: str, value: float, unit: str) -> str:
    return f"{metric} {value:g} {unit}".strip()


def errors(operations: Sequence[Operation]) -> list[Operation]:
    """Operations that ended with an error; one that never ended is no error but a wait."""
    return [one for one in operations if one.ended_s is not None and one.outcome is not Ended.OK]


def ends_of(events: Sequence[Event]) -> Ends:
    """When each run of each load was told to end: who is not answered by then has waited until then."""
    return {(one.data["load"], int(one.data["run"])): one.at_s for one in _kind(events, "load_ending")}


def longest_wait_s(operations: Sequence[Operation], ends: Ends | None = None) -> float:
    """The longest time that one operation took, or had been waiting when its load ended."""
    return max(_waited(run, _last(key, run, ends or {})) for key, run in _runs(operations).items())


def longest_gap_s(operations: Sequence[Operation], ends: Ends | None = None) -> float:
    """The longest time, from the first operation of a load to its end, in which no client of it was answered."""
    return max(_gap(run, _last(key, run, ends or {})) for key, run in _runs(operations).items())


def _runs(operations: Sequence[Operation]) -> dict[tuple[str, int], list[Operation]]:
    runs: dict[tuple[str, int], list[Operation]] = defaultdict(list)
    for one in operations:
        runs[(one.load, one.run)].append(one)
    return runs


def _last(key: tuple[str, int], run: Sequence[Operation], ends: Ends) -> float:
    """When a run ended: as it was told to, or, where that is not known, as far as its operations tell."""
    latest = max(one.began_s if one.ended_s is None else one.ended_s for one in run)
    return max(latest, ends.get(key, latest))


def _waited(run: Sequence[Operation], last: float) -> float:
    return max((last if one.ended_s is None else one.ended_s) - one.began_s for one in run)


def _gap(run: Sequence[Operation], last: float) -> float:
    answers = sorted(one.ended_s for one in run if one.ended_s is not None and one.outcome is Ended.OK)
    times = [min(one.began_s for one in run), *answers, last]
    return max(later - earlier for earlier, later in pairwise(times))


def _kind(events: Sequence[Event], kind: str) -> Iterator[Event]:
    return (event for event in events if event.kind == kind)


def _word(one: Operation) -> str:
    act = "write" if one.act is Act.WRITE else "read"
    return f"{one.client} at {one.began_s:.3f} s, {act} of {one.load}.{one.key}: {one.note}"
