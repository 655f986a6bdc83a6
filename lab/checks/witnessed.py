"""Judges observations together with witnesses: if none shows that the load was real, the verdict is inconclusive."""

from collections.abc import Sequence

from cephlab.lab.base.numbers import how_many, six_digits
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Event, data_of


def witnessed(events: Sequence[Event]) -> Verdict:
    """Judge observations and events of kind `witness` ({what, got, least}: numbers). No witness: inconclusive.

    A witness below its least is also inconclusive: without a real load, observations that hold prove nothing. An
    observation that does not hold still fails.
    """
    return merge((observations(events), witnesses(events)))


def witnesses(events: Sequence[Event]) -> Verdict:
    """Judge the witnesses alone."""
    records = data_of(events, "witness")
    if not records:
        return Verdict(Outcome.INCONCLUSIVE, "no witness shows that the load was real")
    lines = tuple(
        f"{data['what']}: {six_digits(data['got'])}, at least {six_digits(data['least'])} wanted" for data in records
    )
    # Not `got < least`: that is false for NaN.
    missing = [line for line, data in zip(lines, records, strict=True) if not data["got"] >= data["least"]]
    if missing:
        return Verdict(Outcome.INCONCLUSIVE, f"the load or the fault was not real: {missing[0]}", tuple(missing))
    return Verdict(Outcome.PASS, how_many(len(records), "witness of the load", "witnesses of the load"), lines)
