"""Verdicts and how several become one."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What a check can say. Inconclusive is a value of its own, never rounded to either side."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


_RANK = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}


@dataclass(frozen=True)
class Verdict:
    """outcome; reason: one line; derivation: the facts and figures that it rests on."""

    outcome: Outcome
    reason: str
    derivation: tuple[str, ...] = ()


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """Fail beats inconclusive beats pass; the first of the worst gives the reason. No verdicts: inconclusive."""
    ordered = sorted(verdicts, key=lambda verdict: _RANK[verdict.outcome])
    if not ordered:
        return Verdict(Outcome.INCONCLUSIVE, "nothing was checked")
    return Verdict(
        ordered[0].outcome, ordered[0].reason, tuple(line for verdict in ordered for line in verdict.derivation)
    )
