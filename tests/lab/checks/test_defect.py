"""The verdict over a known defect: a sound Ceph with its defects passes, and what changed is told."""

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import Event


def judged(expected: str, tries: list[bool | None], *, listed: bool = True, rate: tuple[int, int] = (1, 1)) -> Verdict:
    known = {"version": "18.2.7", "expected": expected, "listed": listed, "seen": rate[0], "of": rate[1]}
    events = [Event("defects.a", 0.0, "known_defect", known)]
    events += [Event("defects.a", 1.0, "defect_try", {"seen": seen, "said": f"said {seen}"}) for seen in tries]
    return CHECKS["defect"](events)


@pytest.mark.parametrize(
    ("expected", "tries", "listed", "outcome", "begins"),
    [
        ("there", [True], True, Outcome.PASS, "still there: seen in 1 of 1 try with Ceph 18.2.7: said True"),
        ("there", [True], False, Outcome.PASS, "still there (news: "),
        ("there", [False], True, Outcome.FAIL, "gone, although this very version had it: not seen in 1 try"),
        ("there", [False], False, Outcome.PASS, "gone (news: the track record does not know this version): not seen"),
        ("gone", [False], True, Outcome.PASS, "gone: not seen in 1 try with Ceph 18.2.7"),
        ("gone", [True], True, Outcome.FAIL, "returned: seen in 1 of 1 try"),
        ("gone", [True], False, Outcome.FAIL, "returned: "),
        ("", [True], False, Outcome.PASS, "still there (news: "),
        ("there", [None], True, Outcome.INCONCLUSIVE, "no try could tell"),
        ("gone", [None], True, Outcome.INCONCLUSIVE, "no try could tell"),
        ("there", [], True, Outcome.INCONCLUSIVE, "no try could tell"),
        ("there", [None, False, True], True, Outcome.PASS, "still there: seen in 1 of 2 tries"),
    ],
)
def test_each_word(expected: str, tries: list[bool | None], listed: bool, outcome: Outcome, begins: str) -> None:
    verdict = judged(expected, tries, listed=listed)
    assert verdict.outcome is outcome
    assert verdict.reason.startswith(begins)


def test_a_rare_defect_is_gone_only_after_tries_that_its_rate_does_not_explain() -> None:
    few = judged("there", [False] * 3, rate=(1, 9))
    assert few.outcome is Outcome.PASS
    assert few.reason == "not seen in 3 tries with Ceph 18.2.7; it was seen in 1 of 9 before"
    assert judged("there", [False] * 39, rate=(1, 9)).outcome is Outcome.PASS  # (8/9)^39 = 1.01 %
    assert judged("there", [False] * 40, rate=(1, 9)).outcome is Outcome.FAIL


def test_what_the_tries_said_is_kept() -> None:
    assert judged("there", [None, True]).derivation == ("try 1: said None", "try 2: said True")
    assert judged("there", [None]).derivation == ("try 1: said None",)


def test_without_what_is_known_nothing_is_said() -> None:
    assert CHECKS["defect"]([Event("defects.a", 1.0, "defect_try", {"seen": True, "said": ""})]).outcome is (
        Outcome.INCONCLUSIVE
    )
