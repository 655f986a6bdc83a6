"""Observations judged on histories written out: what is wrong is named, and nothing seen is no pass."""

from typing import Any

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import Event


def event(kind: str, **data: Any) -> Event:
    return Event("s", 1.0, kind, data)


def observation(got: object, wanted: object, what: str = "size") -> Event:
    return event("observation", what=what, got=got, wanted=wanted)


@pytest.mark.parametrize(
    ("got", "wanted"), [(1, "1"), ("None", None), ([1], "[1]"), (["1"], [1]), ({"a": "1"}, {"a": 1}), ("True", True)]
)
def test_a_value_of_another_type_is_another_value(got: object, wanted: object) -> None:
    assert CHECKS["observations"]([observation(got, wanted)]).outcome is Outcome.FAIL


def test_equal_values_hold_and_are_counted() -> None:
    verdict = CHECKS["observations"]([observation(1.0, 1), observation([1, "x"], [1, "x"]), event("step", what="y")])
    assert verdict == Verdict(Outcome.PASS, "2 observations hold")


def test_what_is_wrong_is_shown_with_what_was_wanted() -> None:
    size, name = observation(3, 2), observation("x", "y", what="name")
    verdict = CHECKS["observations"]([size, observation(1, 1), name])
    lines = ("size: got 3, wanted 2", "name: got 'x', wanted 'y'")
    assert verdict == Verdict(Outcome.FAIL, f"{lines[0]} (and 1 more)", lines)
    assert CHECKS["observations"]([size]) == Verdict(Outcome.FAIL, lines[0], lines[:1])


def looked_at(got: object, of: int | None) -> Event:
    """An observation that holds."""
    return event("observation", what="damaged PGs", got=got, wanted=got, **({} if of is None else {"of": of}))


@pytest.mark.parametrize("empty", [[], "", {}, (), None])
def test_nothing_beside_nothing_shows_something_only_where_something_was_looked_at(empty: object) -> None:
    doubt = Verdict(Outcome.INCONCLUSIVE, "damaged PGs: nothing was looked at", ("damaged PGs: nothing was looked at",))
    assert CHECKS["observations"]([looked_at(empty, None)]) == doubt
    assert CHECKS["observations"]([looked_at(empty, 0), observation(1, 1)]) == doubt
    assert CHECKS["observations"]([looked_at(empty, 1)]).outcome is Outcome.PASS


def test_zero_and_false_are_answers() -> None:
    assert CHECKS["observations"]([looked_at(0, None), looked_at(False, None)]).outcome is Outcome.PASS
    assert CHECKS["observations"]([looked_at(0, 0)]).outcome is Outcome.INCONCLUSIVE


def test_something_wrong_counts_before_what_was_not_looked_at() -> None:
    assert CHECKS["observations"]([looked_at([], None), observation(1, 2)]).outcome is Outcome.FAIL


def test_of_two_long_values_the_key_that_differs_comes_first() -> None:
    wanted = {"same": "a" * 200, "object": {"omap": ["b" * 200, 5]}, "gone": 1}
    got = {"same": "a" * 200, "object": {"omap": ["b" * 200, 6]}, "new": 2}
    assert reason(got, wanted) == "size: at ['object']['omap'][1]: got 6, wanted 5"
    assert reason({**wanted, "new": 2}, wanted) == "size: at ['new']: got 2, wanted nothing"
    assert reason({"same": "a" * 200}, {"same": "a" * 200, "gone": 1}) == "size: at ['gone']: got nothing, wanted 1"
    assert reason([*range(200)], [*range(200, 400)]) == "size: at [0]: got 0, wanted 200"


def test_of_two_long_texts_the_place_that_differs_is_shown() -> None:
    same = "0123456789" * 30
    assert reason(same + "x", same + "y") == (
        "size: got '...[280 characters] 01234567890123456789x', wanted '...[280 characters] 01234567890123456789y'"
    )
    assert reason("x" + same, "y" + same).startswith("size: got 'x0123")
    assert reason(same, same + "z").endswith("wanted '...[280 characters] 01234567890123456789z'")


def test_values_of_two_kinds_are_shown_beside_each_other_however_long() -> None:
    longer = {"a": "x" * 200}
    assert reason(longer, None).endswith(", wanted None")
    assert reason(["x" * 200], "none").endswith(", wanted 'none'")
    assert reason("none", ["x" * 200]).startswith("size: got 'none', wanted ['x")


def test_values_short_enough_are_shown_whole() -> None:
    fits = ["x" * 76, "y" * 76]
    assert len(repr(fits)) == 160
    assert reason(fits, [*fits[:1], "z"]) == f"size: got {fits!r}, wanted {[fits[0], 'z']!r}"
    assert reason({"a": 1, "b": 2}, {"a": 1, "b": 3}) == "size: got {'a': 1, 'b': 2}, wanted {'a': 1, 'b': 3}"


def reason(got: object, wanted: object) -> str:
    return CHECKS["observations"]([observation(got, wanted)]).reason


def test_a_long_value_is_cut_where_a_line_ends() -> None:
    fits, longer = (
        CHECKS["observations"]([observation("a" * 158, 0)]),
        CHECKS["observations"]([observation("a" * 159, 0)]),
    )
    assert fits.reason == f"size: got '{'a' * 158}', wanted 0"
    assert longer.reason == f"size: got '{'a' * 159}..., wanted 0"


def test_nothing_observed_is_doubt() -> None:
    assert CHECKS["observations"]([event("step", what="y")]) == Verdict(
        Outcome.INCONCLUSIVE, "the scenario observed nothing"
    )
