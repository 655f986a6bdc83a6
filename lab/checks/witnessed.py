"""Observations that count only when the thing under test really took place: without its witnesses, inconclusive."""

from collections.abc import Sequence

from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Event


def witnessed(events: Sequence[Event]) -> Verdict:
    """Judge observations beside events of kind `witness` ({what, got, least}: numbers); no witness is inconclusive.

    A witness below its least is too: the load was not real, so observations that hold show nothing. Wrong ones do.
    """
    return merge((observations(events), witnesses(events)))


def witnesses(events: Sequence[Event]) -> Verdict:
    """Judge the witnesses alone."""
    seen = [event.data for event in events if event.kind == "witness"]
    if not seen:
        return Verdict(Outcome.INCONCLUSIVE, "nothing witnessed that the load was real")
    lines = tuple(f"{data['what']}: {data['got']:g}, at least {data['least']:g} wanted" for data in seen)
    # Not `got < least`, which is false for NaN.
    missing = [line for line, data in zip(lines, seen, strict=True) if not data["got"] >= data["least"]]
    if missing:
        return Verdict(Outcome.INCONCLUSIVE, f"not exercised: {missing[0]}", tuple(missing))
    return Verdict(Outcome.PASS, how_many(len(seen), "witness of the load", "witnesses of the load"), lines)
