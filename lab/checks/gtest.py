"""Judges Ceph's own test programs: every case must pass, except those that are known to fail."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.checks.witnessed import witnessed
from cephlab.lab.history.history import Event, data_of

_SHOWN = 20
_BEGAN = ("pass", "fail", "unfinished")
_BAD = ("fail", "unfinished", "missing")


def gtest(events: Sequence[Event]) -> Verdict:
    """Judge `gtest_case` ({program, case, result, message, known}) and `gtest_program` ({program, code, ending, tail}).

    known: why the case cannot pass here, or None. Observations and witnesses are judged as in `witnessed`.
    A program without a passed case is inconclusive, even if all its failures are known. So is a run without a program.
    """
    programs = data_of(events, "gtest_program")
    cases = data_of(events, "gtest_case")
    if not programs:
        return Verdict(Outcome.INCONCLUSIVE, "no test program was run")
    verdicts = [_program(program, [c for c in cases if c["program"] == program["program"]]) for program in programs]
    return merge([*verdicts, witnessed(events)])


def _program(program: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Verdict:
    name, ending = program["program"], program["ending"]
    tail = tuple(program["tail"].splitlines())
    if not any(case["result"] in _BEGAN for case in cases):
        return Verdict(Outcome.INCONCLUSIVE, f"{name} ran no case: {ending}", tail)
    bad = [case for case in cases if case["result"] in _BAD and case["known"] is None]
    if bad:
        more = f" (and {len(bad) - 1} more of {len(cases)})" if len(bad) > 1 else ""
        return Verdict(Outcome.FAIL, f"{name}: {_line(bad[0])}{more}", tuple(_lines(bad[:_SHOWN])))
    if program["code"] != 0 and not any(case["result"] in _BAD for case in cases):
        return Verdict(Outcome.FAIL, f"{name}: every case passed, but {ending}", tail)
    if not any(case["result"] == "pass" for case in cases):
        # All failures may be known ones, but if nothing passed, nothing shows that Ceph works.
        return Verdict(Outcome.INCONCLUSIVE, f"{name}: {_counts(cases)}: {ending}", (*_notes(name, cases), *tail))
    return Verdict(Outcome.PASS, f"{name}: {_counts(cases)}", tuple(_notes(name, cases)))


def _counts(cases: Sequence[Mapping[str, Any]]) -> str:
    passed = sum(1 for case in cases if case["result"] == "pass")
    known = sum(1 for case in cases if case["result"] in _BAD)
    skipped = len(cases) - passed - known
    extra = (f", {known} known to fail" if known else "") + (f", {skipped} skipped" if skipped else "")
    return f"{passed} of {how_many(len(cases), 'case')} passed{extra}"


def _notes(name: str, cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"{name}: {_counts(cases)}"
    for case in cases:
        if case["known"] is not None and case["result"] == "pass":
            yield f"{name}: {case['case']} passes although it is listed as known to fail ({case['known']})"


def _lines(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for case in cases:
        yield f"{case['program']} {case['case']}: {case['result']}"
        yield from (f"    {line}" for line in case["message"].splitlines())


def _line(case: Mapping[str, Any]) -> str:
    first = case["message"].splitlines()[:1]
    return f"{case['case']}: {first[0] if first else case['result']}"
