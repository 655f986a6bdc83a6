"""Judges how costs changed against a stored baseline, by their whole interval, and the figures of the same run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cephlab.lab.base.numbers import percent, rise
from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Event, data_of

SAME = 1.06
"""A rise up to this factor counts as no change, however certain it is. Source: at 1.05, two of a hundred equal pairs
failed while two neighbours kept the machine busy (docs/regression.md)."""

FOUND = 1.10
"""A rise by this factor must be found (docs/regression.md)."""

STORED = 1.25
"""A rise of CPU time that must be found against a stored baseline or earlier runs: between sessions, smaller ones need
no cause."""

RULE = (
    f"fails if it is above {percent(SAME - 1, '+.0f')} and its whole interval is above 0, passes if its whole interval "
    f"is below {percent(FOUND - 1, '+.0f')} (CPU against a stored baseline or earlier runs: "
    f"{percent(STORED - 1, '+.0f')})"
)


def judge(value: float, low: float, high: float, detectable: float = FOUND, same: float = SAME) -> Outcome:
    """FAIL if a cost surely rose, PASS if it surely rose by less than `detectable`, else INCONCLUSIVE.

    value, low, high: after / before, and its interval; inconclusive if one is not finite. same: largest ratio that
    still counts as no rise. With an interval of 98 % confidence, a cost that did not change appears raised once in 100.
    """
    if not all(math.isfinite(number) for number in (value, low, high)):
        return Outcome.INCONCLUSIVE
    if value > same and low > 1:
        return Outcome.FAIL
    return Outcome.PASS if high < detectable else Outcome.INCONCLUSIVE


def regression(events: Sequence[Event]) -> Verdict:
    """Judge events of kind `change` ({what, value, low, high, found}: after / before), if any, and the figures."""
    changes = data_of(events, "change")
    return merge([figures(events), *(_judge_change(data) for data in changes)])


def _judge_change(data: Mapping[str, Any]) -> Verdict:
    outcome = judge(data["value"], data["low"], data["high"], data.get("found", FOUND))
    line = f"{data['what']}: {rise(data['value'])} [{rise(data['low'])} .. {rise(data['high'])}]"
    text = f"cannot tell: {line}" if outcome is Outcome.INCONCLUSIVE else line
    return Verdict(outcome, text, (f"{text}; {RULE}",))
