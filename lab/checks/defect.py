"""Judges whether a known defect of Ceph is still there, gone, has returned, or was not seen in n tries."""

from collections.abc import Mapping, Sequence
from typing import Any

from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.history.history import Event, data_of

GONE_BELOW = 0.01
"""A defect counts as gone if, at its known rate, the chance of not seeing it in all these tries is below this."""


def defect(events: Sequence[Event]) -> Verdict:
    """Judge `defect_try` ({seen, said}) by `known_defect` ({version, expected, listed, seen, of}).

    seen of a try: None if the try could not tell. expected: `there`, `gone`, or empty if nothing is known of such a
    version. listed: whether that is known of exactly this version, not only of an older one. seen, of: the known rate.
    A Ceph that has only its known defects passes. A defect that came back fails. So does a defect that exactly this
    version had and that the program written to show it no longer shows.
    """
    known = next(iter(data_of(events, "known_defect")), None)
    tries = data_of(events, "defect_try")
    decided = [data for data in tries if data["seen"] is not None]
    lines = tuple(f"try {number}: {data['said']}" for number, data in enumerate(tries, 1))
    if known is None or not decided:
        return Verdict(Outcome.INCONCLUSIVE, "no try could tell whether the defect is present", lines)
    sightings = [data for data in decided if data["seen"]]
    outcome, reason = _seen(known, sightings, len(decided)) if sightings else _unseen(known, len(decided))
    return Verdict(outcome, reason, lines)


def _seen(known: Mapping[str, Any], sightings: Sequence[Mapping[str, Any]], tries: int) -> tuple[Outcome, str]:
    counted = f"seen in {len(sightings)} of {_tries(tries)} with Ceph {known['version']}: {sightings[0]['said']}"
    if known["expected"] == "gone":
        return Outcome.FAIL, f"returned: {counted}"
    return Outcome.PASS, f"still there{_news(known)}: {counted}"


def _unseen(known: Mapping[str, Any], tries: int) -> tuple[Outcome, str]:
    missed = (1 - known["seen"] / known["of"]) ** tries
    if missed >= GONE_BELOW:
        rate = f"{known['seen']} of {known['of']}"
        return Outcome.PASS, f"not seen in {_tries(tries)} with Ceph {known['version']}; it was seen in {rate} before"
    reason = f"not seen in {_tries(tries)} with Ceph {known['version']}"
    if known["expected"] == "there" and known["listed"]:
        return Outcome.FAIL, f"gone, although this very version had it: {reason}"
    return Outcome.PASS, f"gone{_news(known)}: {reason}"


def _tries(count: int) -> str:
    return how_many(count, "try", "tries")


def _news(known: Mapping[str, Any]) -> str:
    return "" if known["listed"] else " (news: the track record does not know this version)"
