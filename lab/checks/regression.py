"""Costs that changed against a stored baseline, judged by their whole interval, beside the figures of the same run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Event

SAME = 1.06
"""Up to here a cost has not changed, however certain that is. Source: at 1.05 two of a hundred equal pairs that two
neighbours kept busy failed (docs/regression.md)."""

FOUND = 1.10
"""What must be found (docs/regression.md)."""

STORED = 1.25
"""What must be found of CPU against a stored baseline: smaller changes happen between two sessions without a cause."""

RULE = (
    f"fails when it is {SAME - 1:+.0%} or more and all of its interval is above 0, passes when all of it is below "
    f"{FOUND - 1:+.0%} (CPU against a stored baseline: {STORED - 1:+.0%})"
)


def judge(value: float, low: float, high: float, detectable: float = FOUND, same: float = SAME) -> Outcome:
    """FAIL where a cost surely rose, PASS where it surely rose by less than `detectable`, else INCONCLUSIVE.

    value, low, high: after / before, and its interval; inconclusive where one is not finite. same: no rise up to here.
    With an interval that holds the truth 98 times in 100, a cost that is the same lies above it once in 100.
    """
    if not all(math.isfinite(number) for number in (value, low, high)):
        return Outcome.INCONCLUSIVE
    if value > same and low > 1:
        return Outcome.FAIL
    return Outcome.PASS if high < detectable else Outcome.INCONCLUSIVE


def regression(events: Sequence[Event]) -> Verdict:
    """Judge events of kind `change` ({what, value, low, high, found}: after / before), if any, beside the figures."""
    changes = [event.data for event in events if event.kind == "change"]
    return merge([figures(events), *(_one(data) for data in changes)])


def _one(data: Mapping[str, Any]) -> Verdict:
    outcome = judge(data["value"], data["low"], data["high"], data.get("found", FOUND))
    line = f"{data['what']}: {data['value'] - 1:+.1%} [{data['low'] - 1:+.1%} .. {data['high'] - 1:+.1%}]"
    text = f"cannot tell: {line}" if outcome is Outcome.INCONCLUSIVE else line
    return Verdict(outcome, text, (f"{text}; {RULE}",))
