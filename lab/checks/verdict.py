"""Verdicts, and how several are merged into one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The possible outcomes of a check. Inconclusive is never turned into a pass or a failure."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


_RANK = {Outcome.FAIL: 0, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}


@dataclass(frozen=True)
class Verdict:
    """outcome; reason: one line; derivation: the facts and figures behind it."""

    outcome: Outcome
    reason: str
    derivation: tuple[str, ...] = ()


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst outcome wins: fail, inconclusive, pass. Its first verdict gives the reason. Of none: inconclusive."""
    ordered = sorted(verdicts, key=lambda verdict: _RANK[verdict.outcome])
    if not ordered:
        return Verdict(Outcome.INCONCLUSIVE, "nothing was checked")
    return Verdict(
        ordered[0].outcome, ordered[0].reason, tuple(line for verdict in ordered for line in verdict.derivation)
    )


def first_of(lines: Sequence[str]) -> str:
    """The first of some sentences as the reason of a verdict, with the number of the others."""
    return lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")
