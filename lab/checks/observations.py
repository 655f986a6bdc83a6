"""The plainest check: every observed fact is what it had to be, and there was at least one."""

from __future__ import annotations

from collections.abc import Sequence

from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.history.history import Event

_SHOWN_CHARS = 160


def observations(events: Sequence[Event]) -> Verdict:
    """Judge events of kind `observation` ({what, got, wanted}); none at all is inconclusive."""
    seen = [event.data for event in events if event.kind == "observation"]
    if not seen:
        return Verdict(Outcome.INCONCLUSIVE, "the scenario observed nothing")
    wrong = [data for data in seen if data["got"] != data["wanted"]]
    if not wrong:
        return Verdict(Outcome.PASS, f"{len(seen)} observations hold")
    lines = tuple(f"{data['what']}: got {_short(data['got'])}, wanted {_short(data['wanted'])}" for data in wrong)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return Verdict(Outcome.FAIL, lines[0] + more, lines)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
