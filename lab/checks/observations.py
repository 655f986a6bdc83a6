"""The simplest check: every observed value equals the expected one, and there is at least one observation."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.verdict import Outcome, Verdict, first_of
from cephlab.lab.history.history import Event, data_of

_SHOWN_CHARS = 160
_BEFORE_CHARS = 20
"""How many characters of two long texts are shown before the first that differs."""


class _Absent:
    """Stands for a key that is missing on one side."""

    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def observations(events: Sequence[Event]) -> Verdict:
    """Judge events of kind `observation` ({what, got, wanted, of}).

    Without any observation the verdict is inconclusive. The same holds for an empty answer if nothing was looked at
    (`of` is 0), or if `of` is not given.
    """
    observed = data_of(events, "observation")
    if not observed:
        return Verdict(Outcome.INCONCLUSIVE, "the scenario observed nothing")
    wrong = tuple(f"{data['what']}: {difference(data['got'], data['wanted'])}" for data in observed if _wrong(data))
    if wrong:
        return Verdict(Outcome.FAIL, first_of(wrong), wrong)
    unseen = tuple(f"{data['what']}: nothing was looked at" for data in observed if _unseen(data))
    if unseen:
        return Verdict(Outcome.INCONCLUSIVE, first_of(unseen), unseen)
    return Verdict(Outcome.PASS, how_many(len(observed), "observation holds", "observations hold"))


def difference(got: object, wanted: object) -> str:
    """How two values differ, in one line. If they are too long to show, only the first key or item that differs."""
    at = ""
    if max(len(repr(got)), len(repr(wanted))) > _SHOWN_CHARS:
        where, got, wanted = _first_difference("", got, wanted)
        at = f"at {where}: " if where else ""
        if isinstance(got, str) and isinstance(wanted, str):
            got, wanted = _from_first_difference(got, wanted)
    return f"{at}got {_short(got)}, wanted {_short(wanted)}"


def _wrong(data: Mapping[str, Any]) -> bool:
    return bool(data["got"] != data["wanted"])


def _unseen(data: Mapping[str, Any]) -> bool:
    """Whether an observation holds only because nothing was looked at."""
    empty = data["got"] is None or (hasattr(data["got"], "__len__") and not len(data["got"]))
    return int(data.get("of", 0 if empty else 1)) < 1


def _first_difference(where: str, got: Any, wanted: Any) -> tuple[str, Any, Any]:
    """The keys that lead to the innermost values that differ, and the two values."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        keys = [*wanted, *(key for key in got if key not in wanted)]
        pairs = [(key, got.get(key, _ABSENT), wanted.get(key, _ABSENT)) for key in keys]
    elif isinstance(got, list | tuple) and isinstance(wanted, list | tuple) and len(got) == len(wanted):
        pairs = list(zip(range(len(got)), got, wanted, strict=True))
    else:
        return where, got, wanted
    key, left, right = next((key, left, right) for key, left, right in pairs if left != right)
    return _first_difference(f"{where}[{key!r}]", left, right)


def _from_first_difference(got: str, wanted: str) -> tuple[str, str]:
    """Two texts from shortly before the first character that differs."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(got, wanted, strict=False)))
    begin = max(0, same - _BEFORE_CHARS)
    lead = f"...[{begin} characters] " if begin else ""
    return lead + got[begin:], lead + wanted[begin:]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
