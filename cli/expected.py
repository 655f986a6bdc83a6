"""What a gate with a profile prints about it: predictions, their limits, and the verdicts on its requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cephlab.lab.base.numbers import si

if TYPE_CHECKING:
    from cephlab.lab.archive.archive import Archive


def expectations(archive: Archive) -> list[dict[str, Any]]:
    """The predictions in the archive of a gate, the one of recovery last."""
    from cephlab.fixtures.expectation import SCENARIO

    kinds = ("prediction", "recovery")
    events = [event for event in archive.events if event.scenario == SCENARIO and event.kind in kinds]
    return [dict(event.data) for event in events]


def requirement_lines(archive: Archive) -> list[str]:
    """The requirements of the profile, with verdicts; where one is not surely met, also what would be enough."""
    from cephlab.lab.report.wanted import wanted_of

    lines = []
    for wanted in wanted_of(archive):
        lines.append(f"{wanted.record.scenario}, {wanted.data['what']}: {wanted.record.ending.word}")
        for row in wanted.data["rows"]:
            measured = f", measured {row['measured']}" if row["measured"] else ""
            lines.append(f"  {row['metric']}: {row['required']} required, {row['predicted']} predicted{measured}")
        lines += [f"  enough: {line}" for line in wanted.data["enough"]]
        lines += [f"  not known: {line}" for line in wanted.data.get("doubts", ())]
        lines += [f"  measuring: {line}" for line in wanted.data.get("measuring", ())]
    return ["", f"requirements of {wanted.data['profile']}:", *(f"  {line}" for line in lines)] if lines else []


def expectation_lines(predictions: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each prediction and each of its limits. Derivations are long, so only the report has them."""
    lines = []
    for prediction in predictions:
        if "ops_s" in prediction:
            rate, latency = si(prediction["ops_s"], "ops/s"), si(prediction["latency_s"], "s")
            figures = f"{rate}, mean latency {latency}, limit: {prediction['bottleneck']}"
            lines.append(f"predicted for {prediction['profile']}, {prediction['shape']}: {figures}")
        elif "seconds" in prediction:
            lines.append(f"predicted for {prediction['profile']}: {prediction['text']}")
        else:
            lines.append(f"not predicted for {prediction['profile']}, {prediction['shape']}: {prediction['unknown']}")
        lines += [_limit_line(limit) for limit in prediction.get("limits", ())]
    costs = dict.fromkeys(prediction["demands"] for prediction in predictions if "demands" in prediction)
    rest = (*(f"demands {origin}" for origin in costs), "The report shows how each figure is derived.")
    return ["", *lines, *rest] if lines else []


def _limit_line(limit: Mapping[str, Any]) -> str:
    sides = ((limit["low"], "at least"), (limit["high"], "at most"))
    wanted = " and ".join(f"{words} {si(bound, limit['unit'])}" for bound, words in sides if bound is not None)
    return f"  {limit['metric'].partition(' of ')[0]}: {wanted}"
