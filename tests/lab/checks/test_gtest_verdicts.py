"""What is said of Ceph's own test programs: counts, the cases that failed, and what they printed."""

from typing import Any

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import Event


def event(kind: str, **data: Any) -> Event:
    return Event("s", 1.0, kind, data)


PROGRAM = "ceph_test_x"


def case(name: str, result: str, message: str = "", known: str | None = None) -> Event:
    return event("gtest_case", program=PROGRAM, case=name, result=result, message=message, known=known)


def program(*cases: Event, code: int = 0) -> Verdict:
    ending = event("gtest_program", program=PROGRAM, code=code, ending=f"it ended with status {code}", tail="one\ntwo")
    return CHECKS["gtest"]([*cases, ending, *BESIDE])


BESIDE = (
    event("observation", what="size", got=1, wanted=1),
    event("witness", what="faults", got=1, least=1),
)
OTHERS = ("faults: 1, at least 1 wanted",)
WHY = "a lab has no such device"


def test_cases_that_pass_are_counted_and_those_that_are_known_not_to() -> None:
    assert program(case("A.a", "pass")) == Verdict(
        Outcome.PASS, f"{PROGRAM}: 1 of 1 case passed", (f"{PROGRAM}: 1 of 1 case passed", *OTHERS)
    )
    verdict = program(
        case("A.a", "pass"),
        case("A.b", "fail", known=WHY),
        case("A.c", "missing", known=WHY),
        case("A.d", "skip"),
        code=1,
    )
    said = f"{PROGRAM}: 1 of 4 cases passed, 2 known to fail, 1 skipped"
    assert verdict == Verdict(Outcome.PASS, said, (said, *OTHERS))


def test_a_case_that_passes_although_it_is_known_not_to_is_told() -> None:
    verdict = program(case("A.a", "pass", known=WHY), case("A.b", "pass"))
    assert verdict.outcome is Outcome.PASS
    assert verdict.derivation[1] == f"{PROGRAM}: A.a passes although it is listed as known to fail ({WHY})"
    assert len(verdict.derivation) == 3


def test_cases_that_fail_are_told_with_what_they_said() -> None:
    verdict = program(case("A.a", "fail", "expected 0\ngot 1"), case("A.b", "pass"), code=1)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason == f"{PROGRAM}: A.a: expected 0"
    assert verdict.derivation == (f"{PROGRAM} A.a: fail", "    expected 0", "    got 1", *OTHERS)
    of_three = program(*(case(f"A.{name}", "unfinished") for name in "abc"), case("A.d", "pass"), code=1)
    assert of_three.reason == f"{PROGRAM}: A.a: unfinished (and 2 more of 4)"
    of_two = program(*(case(f"A.{name}", "missing") for name in "ab"), case("A.c", "pass"))
    assert of_two.reason == f"{PROGRAM}: A.a: missing (and 1 more of 3)"


def test_twenty_cases_that_fail_are_shown_and_no_more() -> None:
    verdict = program(*(case(f"A.a{number}", "fail") for number in range(22)), code=1)
    assert verdict.reason == f"{PROGRAM}: A.a0: fail (and 21 more of 22)"
    assert len(verdict.derivation) == 20 + len(OTHERS)


def test_a_program_of_which_nothing_passed_is_doubt() -> None:
    nothing = program(case("A.a", "skip"), code=139)
    assert nothing == Verdict(
        Outcome.INCONCLUSIVE, f"{PROGRAM} ran no case: it ended with status 139", ("one", "two", *OTHERS)
    )
    known = program(case("A.a", "fail", known=WHY), code=1)
    said = f"{PROGRAM}: 0 of 1 case passed, 1 known to fail"
    assert known.reason == f"{said}: it ended with status 1"
    assert known.derivation == (said, "one", "two", *OTHERS)
    assert known.outcome is Outcome.INCONCLUSIVE


def test_a_program_that_fails_although_its_cases_passed_fails() -> None:
    verdict = program(case("A.a", "pass"), code=1)
    assert verdict == Verdict(
        Outcome.FAIL, f"{PROGRAM}: every case passed, but it ended with status 1", ("one", "two", *OTHERS)
    )
