"""The check `witnessed` on tiny histories: good, wrong, and not exercised."""

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History


def verdict(*, right: bool = True, witnesses: tuple[tuple[float, float], ...] = ((5, 1),)) -> Outcome:
    recorder = History().recorder("suite.topic")
    recorder.observe("a byte", got=len("x"), wanted=1 if right else 2)
    for got, least in witnesses:
        recorder.witness("bytes moved", got=got, least=least)
    return CHECKS["witnessed"](recorder.events()).outcome


@pytest.mark.parametrize(
    ("right", "witnesses", "outcome"),
    [
        (True, ((5, 1),), Outcome.PASS),
        (True, ((1, 1), (7, 7)), Outcome.PASS),
        (True, ((5, 1), (0, 1)), Outcome.INCONCLUSIVE),
        (True, (), Outcome.INCONCLUSIVE),
        (False, ((5, 1),), Outcome.FAIL),
        (False, ((0, 1),), Outcome.FAIL),
    ],
)
def test_outcome(right: bool, witnesses: tuple[tuple[float, float], ...], outcome: Outcome) -> None:
    assert verdict(right=right, witnesses=witnesses) is outcome


def test_witnesses_without_an_observation_show_nothing() -> None:
    recorder = History().recorder("suite.topic")
    recorder.witness("bytes moved", got=5, least=1)
    assert CHECKS["witnessed"](recorder.events()).outcome is Outcome.INCONCLUSIVE


def test_the_missing_witness_is_named() -> None:
    recorder = History().recorder("suite.topic")
    recorder.observe("a byte", got=len("x"), wanted=1)
    recorder.witness("objects recovered", got=0, least=8)
    assert "objects recovered: 0, at least 8" in CHECKS["witnessed"](recorder.events()).reason
