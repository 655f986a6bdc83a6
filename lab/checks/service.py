"""Judges how clients were served, against limits: errors, waits, gaps without an answer, and other figures."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from cephlab.lab.checks.figures import judge_figure
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Event, data_of
from cephlab.lab.history.operations import Act, Ended, Operation, operations_of

_SHOWN = 10

Ends = Mapping[tuple[str, int], float]
"""(load, run) -> seconds of the history."""
Computed = tuple[str, float, str]
"""(metric, value, unit)."""


def service(events: Sequence[Event]) -> Verdict:
    """Judge `operations` and `figure` events against `limit` events ({metric, high, unit, why}).

    This check computes client_errors, longest_wait_s and longest_gap_s. Other metrics come as `figure` events, which
    may have their own bounds. A metric without a limit is shown but not judged. A limit without its metric, or without
    any operation, is inconclusive.
    """
    meanwhile = _meanwhile(events)
    figures = _computed(meanwhile, ends_of(events))
    measured = data_of(events, "figure")
    limits = limits_by_metric(events)
    # A figure with its own bounds is judged by them alone, unless a limit applies to it too.
    figures += [_parts(data) for data in measured if not bounded(data) or data["metric"] in limits]
    verdicts = [_judge(metric, value, unit, limits.get(metric)) for metric, value, unit in figures]
    known = {metric for metric, _, _ in figures}
    verdicts += [Verdict(Outcome.INCONCLUSIVE, f"{name} was not measured") for name in limits if name not in known]
    verdicts += [judge_figure(data) for data in measured if bounded(data)]
    verdicts += [Verdict(Outcome.PASS, "errors", (line,)) for line in [_word(op) for op in errors(meanwhile)][:_SHOWN]]
    merged = merge(verdicts)
    if merged.outcome is Outcome.PASS:
        figures += [_parts(data) for data in measured if data["metric"] not in known]
        return Verdict(Outcome.PASS, ", ".join(_said(*figure) for figure in figures), merged.derivation)
    return merged


def computed(events: Sequence[Event]) -> list[Computed]:
    """The metrics that this check computes from the operations of a history, as far as these tell them."""
    return _computed(_meanwhile(events), ends_of(events))


def _computed(meanwhile: Sequence[Operation], ends: Ends) -> list[Computed]:
    metrics = [("client_errors", float(len(errors(meanwhile))), "")] if meanwhile else []
    if any(op.outcome is Ended.OK for op in meanwhile):
        metrics += [
            ("longest_wait_s", longest_wait_s(meanwhile, ends), "s"),
            ("longest_gap_s", longest_gap_s(meanwhile, ends), "s"),
        ]
    return metrics


def _meanwhile(events: Sequence[Event]) -> list[Operation]:
    return [op for op in operations_of(events) if op.act is not Act.FINAL]


def limits_by_metric(events: Sequence[Event]) -> dict[str, Mapping[str, Any]]:
    """The data of the limit that applies to each metric: the last one recorded."""
    return {event.data["metric"]: event.data for event in events if event.kind == "limit"}


def bounded(figure: Mapping[str, Any]) -> bool:
    """Whether a figure has a limit of its own."""
    return (figure["least"], figure["most"]) != (None, None)


def _parts(figure: Mapping[str, Any]) -> tuple[str, float, str]:
    return figure["metric"], float(figure["value"]), figure["unit"]


def _judge(metric: str, value: float, unit: str, limit: Mapping[str, Any] | None) -> Verdict:
    figure = _said(metric, value, unit)
    if not math.isfinite(value):
        text = f"cannot tell, not a finite number: {figure}"
        return Verdict(Outcome.INCONCLUSIVE, text, (text,))
    if limit is None:
        return Verdict(Outcome.PASS, figure, (f"{figure} (no limit)",))
    within = value <= limit["high"]
    line = f"{figure}, at most {limit['high']:g} {limit['unit']}".strip() + f": {limit['why']}"
    return Verdict(Outcome.PASS if within else Outcome.FAIL, line, (line,))


def _said(metric: str, value: float, unit: str) -> str:
    return f"{metric} {value:g} {unit}".strip()


def errors(operations: Sequence[Operation]) -> list[Operation]:
    """Operations that ended with an error. An operation that never ended counts as a wait, not as an error."""
    return [op for op in operations if op.ended_s is not None and op.outcome is not Ended.OK]


def ends_of(events: Sequence[Event]) -> Ends:
    """When each run of each load was told to end. An operation not answered by then has waited until then."""
    endings = (event for event in events if event.kind == "load_ending")
    return {(event.data["load"], int(event.data["run"])): event.at_s for event in endings}


def longest_wait_s(operations: Sequence[Operation], ends: Ends | None = None) -> float:
    """The longest time that an operation took, or had waited when its load ended."""
    return max(_waited(run, _last(key, run, ends or {})) for key, run in _runs(operations).items())


def longest_gap_s(operations: Sequence[Operation], ends: Ends | None = None) -> float:
    """The longest time in which no client of a load got an answer, between its first operation and its end."""
    return max(_gap(run, _last(key, run, ends or {})) for key, run in _runs(operations).items())


def _runs(operations: Sequence[Operation]) -> dict[tuple[str, int], list[Operation]]:
    runs: dict[tuple[str, int], list[Operation]] = defaultdict(list)
    for op in operations:
        runs[(op.load, op.run)].append(op)
    return runs


def _last(key: tuple[str, int], run: Sequence[Operation], ends: Ends) -> float:
    """When a run was told to end, or the time of its latest operation if that is later or the end is not known."""
    latest = max(op.began_s if op.ended_s is None else op.ended_s for op in run)
    return max(latest, ends.get(key, latest))


def _waited(run: Sequence[Operation], last: float) -> float:
    return max((last if op.ended_s is None else op.ended_s) - op.began_s for op in run)


def _gap(run: Sequence[Operation], last: float) -> float:
    answers = sorted(op.ended_s for op in run if op.ended_s is not None and op.outcome is Ended.OK)
    times = [min(op.began_s for op in run), *answers, last]
    return max(later - earlier for earlier, later in pairwise(times))


def _word(op: Operation) -> str:
    act = "write" if op.act is Act.WRITE else "read"
    return f"{op.client} at {op.began_s:.3f} s, {act} of {op.load}.{op.key}: {op.note}"
