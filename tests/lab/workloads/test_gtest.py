"""GoogleTest programs: what is read from them, and how a verdict comes of it."""

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from cephlab.lab.base.errors import CommandTimedOut, SpecError
from cephlab.lab.base.process import Result as Ended
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import Event
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.workloads import gtest
from cephlab.lab.workloads.gtest import Case, CaseResult, GtestRun
from cephlab.suites.cephtests import objectstore, programs
from cephlab.suites.cephtests.programs import Known, read_known, reason_for, selection

PROGRAM = "ceph_test_made_up"

LISTED = """did not load config file, using default settings.
LibRadosIo.
  SimpleWrite
  DISABLED_Slow
Tests/LibRadosWatch.  # TypeParam = int
  Watch/0  # GetParam() = ""
  Watch/1  # GetParam() = "cache"
"""

CRASHED = """[==========] Running 4 tests from 1 test suite.
[----------] 4 tests from Io
[ RUN      ] Io.Good
[       OK ] Io.Good (12 ms)
[ RUN      ] Io.Skipped
[  SKIPPED ] Io.Skipped (0 ms)
[ RUN      ] Io.Bad
./src/test/io.cc:20: Failure
[  FAILED  ] Io.Bad (7 ms)
[ RUN      ] Io.Crashing
*** Caught signal (Aborted) **
"""

REPORT = json.dumps(
    {
        "testsuites": [
            {
                "name": "Io",
                "testsuite": [
                    {"name": "Good", "status": "RUN", "result": "COMPLETED", "time": "0.012s"},
                    {
                        "name": "Bad",
                        "status": "RUN",
                        "result": "COMPLETED",
                        "time": "0s",
                        "failures": [{"failure": "x"}],
                    },
                    {"name": "Skipped", "status": "RUN", "result": "SKIPPED", "time": "0s"},
                    {"name": "Filtered", "status": "NOTRUN", "result": "SUPPRESSED", "time": "0s"},
                ],
            }
        ]
    }
).encode()


class FakeHost:
    """A host on which one program can be run, as the test says; it refuses everything else."""

    def __init__(self, stdout: str, code: int | None, report: bytes | None) -> None:
        self._stdout, self._code, self._report = stdout, code, report
        self._written: bytes | None = b"of an earlier run"

    def run(self, argv: Sequence[str], **options: Any) -> Ended:
        assert argv[0] == PROGRAM
        assert "--gtest_output=json:/n/report.json" in argv
        assert self._written is None, "an earlier report is still there"
        self._written = self._report
        if self._code is None:
            raise CommandTimedOut(argv, 5.0, self._stdout, "", "n0")
        return Ended(tuple(argv), self._code, self._stdout.encode(), b"")

    def exists(self, path: PurePosixPath) -> bool:
        return self._written is not None

    def read(self, path: PurePosixPath) -> bytes:
        assert self._written is not None
        return self._written

    def remove(self, path: PurePosixPath) -> None:
        self._written = None


def ran(stdout: str, code: int | None, report: bytes | None, wanted: Sequence[str]) -> Mapping[str, Case]:
    host: Any = FakeHost(stdout, code, report)
    run = gtest.run_gtest(host, gtest.Call(PROGRAM, PurePosixPath("/n/report.json"), 5, {}), wanted)
    return {case.name: case for case in run.cases}


def test_a_list_names_every_case_but_the_disabled_ones() -> None:
    assert gtest.parse_list(LISTED) == (
        "LibRadosIo.SimpleWrite",
        "Tests/LibRadosWatch.Watch/0",
        "Tests/LibRadosWatch.Watch/1",
    )


def test_a_report_gives_one_result_for_each_case_that_was_selected() -> None:
    cases = ran(CRASHED, 1, REPORT, ["Io.Good", "Io.Bad", "Io.Skipped"])
    assert {name: case.result for name, case in cases.items()} == {
        "Io.Good": CaseResult.PASS,
        "Io.Bad": CaseResult.FAIL,
        "Io.Skipped": CaseResult.SKIP,
    }
    assert cases["Io.Good"].seconds == 0.012
    assert cases["Io.Bad"].message == "x"


def test_after_a_crash_every_case_is_accounted_for() -> None:
    cases = ran(CRASHED, -6, None, ["Io.Good", "Io.Bad", "Io.Skipped", "Io.Crashing", "Io.Later"])
    assert {name: case.result for name, case in cases.items()} == {
        "Io.Good": CaseResult.PASS,
        "Io.Bad": CaseResult.FAIL,
        "Io.Skipped": CaseResult.SKIP,
        "Io.Crashing": CaseResult.UNFINISHED,
        "Io.Later": CaseResult.MISSING,
    }
    assert "signal 6" in cases["Io.Crashing"].message
    assert "signal 6" in cases["Io.Later"].message


def test_a_hang_is_no_pass() -> None:
    cases = ran(CRASHED, None, None, ["Io.Good", "Io.Crashing"])
    assert cases["Io.Good"].result is CaseResult.PASS
    assert cases["Io.Crashing"].result is CaseResult.UNFINISHED
    assert "did not end in time" in cases["Io.Crashing"].message


# The check


def case(name: str, result: str, known: str | None = None) -> Event:
    data = {"program": PROGRAM, "case": name, "result": result, "seconds": 0.1, "message": "why", "known": known}
    return Event("s", 0.0, "gtest_case", data)


def judged(*cases: Event, code: int | None = 0, share: float = 1.0) -> tuple[Outcome, str, str]:
    program = {"program": PROGRAM, "code": code, "ending": f"it ended with status {code}", "tail": "last words"}
    events = [
        *cases,
        Event("s", 0.0, "gtest_program", program),
        Event("s", 0.0, "observation", {"what": "client", "got": 1, "wanted": 1}),
        Event("s", 0.0, "witness", {"what": "share of primaries", "got": share, "least": 0.95}),
    ]
    verdict = CHECKS["gtest"](events)
    return verdict.outcome, verdict.reason, "\n".join(verdict.derivation)


def test_passing_cases_pass() -> None:
    outcome, reason, _ = judged(case("Io.Good", "pass"), case("Io.Skipped", "skip"))
    assert outcome is Outcome.PASS
    assert "1 of 2 cases passed, 1 skipped" in reason


@pytest.mark.parametrize("result", ["fail", "unfinished", "missing"])
def test_one_bad_case_fails_and_is_named(result: str) -> None:
    outcome, reason, _ = judged(case("Io.Good", "pass"), case("Io.Bad", result), code=1)
    assert outcome is Outcome.FAIL
    assert reason == f"{PROGRAM}: Io.Bad: why"


def test_a_known_case_may_fail_and_its_pass_is_said() -> None:
    assert judged(case("Io.Good", "pass"), case("Io.Bad", "fail", "too small"), code=1)[0] is Outcome.PASS
    outcome, _, derivation = judged(case("Io.Good", "pass", "too small"))
    assert outcome is Outcome.PASS
    assert "Io.Good passes although it is listed as known to fail (too small)" in derivation


def test_no_case_is_inconclusive() -> None:
    assert judged(case("Io.Good", "missing"), code=1)[0] is Outcome.INCONCLUSIVE
    assert judged()[0] is Outcome.INCONCLUSIVE
    assert CHECKS["gtest"]([]).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("cases", "code"),
    [
        ([case("Io.A", "fail", "it aborts"), case("Io.B", "missing", "it aborts"), case("Io.C", "missing", "so")], -6),
        ([case("Io.A", "unfinished", "it aborts")], -6),
        ([case("Io.A", "skip"), case("Io.B", "fail", "too small")], 1),
    ],
)
def test_no_passing_case_is_inconclusive_whatever_is_known(cases: list[Event], code: int) -> None:
    outcome, reason, _ = judged(*cases, code=code)
    assert outcome is Outcome.INCONCLUSIVE
    assert re.search(rf"0 of {len(cases)} cases? passed", reason)
    assert judged(*cases, case("Io.Good", "pass"), code=code)[0] is Outcome.PASS


def test_no_passing_case_does_not_hide_one_that_nobody_knows() -> None:
    assert judged(case("Io.A", "fail", "too small"), case("Io.B", "fail"), code=1)[0] is Outcome.FAIL


def test_a_bad_status_behind_passing_cases_fails() -> None:
    outcome, reason, derivation = judged(case("Io.Good", "pass"), code=-11)
    assert outcome is Outcome.FAIL
    assert "every case passed, but" in reason
    assert "last words" in derivation


def test_primaries_elsewhere_make_it_inconclusive() -> None:
    outcome, reason, _ = judged(case("Io.Good", "pass"), share=0.2)
    assert outcome is Outcome.INCONCLUSIVE
    assert "share of primaries" in reason


# The list of known cases


def test_the_list_of_known_cases_is_valid() -> None:
    entries = read_known()
    assert len({(entry.program, entry.case) for entry in entries}) == len(entries)
    assert {entry.lab for entry in entries if entry.lab} <= set(PROVIDERS)


@pytest.mark.parametrize(
    ("lab", "emulated", "borne"), [("uml", False, True), ("uml", True, False), ("local", False, False)]
)
def test_an_entry_about_one_provider_is_borne_on_its_own_machines_alone(lab: str, emulated: bool, borne: bool) -> None:
    entry = Known(program=PROGRAM, case="Io.Hangs", reason="it takes an hour, which is too long", lab="uml")
    assert entry.holds_on(lab, emulated=emulated) is borne
    assert entry.model_copy(update={"lab": ""}).holds_on(lab, emulated=emulated)


def test_a_filter_leaves_out_what_must_not_run() -> None:
    why = "it takes an hour, which is too long"
    known = (
        Known(program=PROGRAM, case="Io.Hangs", reason=why, run=False),
        Known(program=PROGRAM, case="Io.Fails*", reason=why),
        Known(program="ceph_test_other", case="Io.Good", reason=why, run=False),
    )
    assert selection(known, PROGRAM, "*") == "*-Io.Hangs"
    assert selection(known, PROGRAM, "Io.*-Io.Slow") == "Io.*-Io.Slow:Io.Hangs"
    assert selection((), PROGRAM, "*") == "*"
    assert reason_for(known, PROGRAM, "Io.FailsHere") == why
    assert reason_for(known, PROGRAM, "Io.Good") is None


@pytest.mark.parametrize(
    "text",
    [
        '[[known]]\nprogram = "ceph_test_x"\ncase = "A.B"\nreason = "short"',
        '[[known]]\nprogram = "ceph_test_x"\ncase = "A"\nreason = "it takes an hour, which is too long"',
        '[[known]]\nprogram = "ceph_test_x"\ncase = "A.B"\nreason = "it takes an hour, which is too long"\nwhy = 1',
        "[[known",
    ],
)
def test_a_bad_list_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"known\.toml"):
        read_known(path)


def selects(filter_text: str, case: str) -> bool:
    """Whether a GoogleTest filter takes a case: patterns, then a dash, then what is taken away again."""
    wanted, _, unwanted = filter_text.partition("-")
    return any(fnmatchcase(case, pattern) for pattern in wanted.split(":")) and not any(
        fnmatchcase(case, pattern) for pattern in unwanted.split(":")
    )


@pytest.mark.parametrize(
    "case",
    [
        "TestLibRBD.Open",
        "DiffIterateTest/0.Diff",
        *(f"EncryptedFlattenTest/{number}.Grow" for number in range(10)),
        "TestGroup.Add",
    ],
)
def test_every_case_of_librbd_is_in_one_part(case: str) -> None:
    assert sum(selects(part.select, case) for part in programs.LIBRBD) == 1


def test_librbd_is_told_the_features_that_images_have_by_default() -> None:
    layering, exclusive_lock, object_map, fast_diff, deep_flatten = 1, 4, 8, 16, 32
    wanted = str(layering | exclusive_lock | object_map | fast_diff | deep_flatten)
    assert {dict(part.environ)["RBD_FEATURES"] for part in programs.LIBRBD} == {wanted}


STORE, LAYOUT = objectstore.selection(""), objectstore.selection("layout")


@pytest.mark.parametrize(
    ("case", "part"),
    [
        ("ObjectStore/StoreTest.SimpleRemount/1", STORE),
        ("ObjectStore/StoreTest.BigRGWObjectName/1", STORE),
        ("ObjectStore/StoreTestSpecificAUSize.DeferredOnBigOverwrite2/1", LAYOUT),
        ("ObjectStore/StoreTestSpecificAUSize.Many4KWritesTest/1", LAYOUT),
        ("ObjectStore/StoreTestSpecificAUSize.SpilloverTest/1", LAYOUT),
        ("ObjectStore/StoreTestOmapUpgrade.NoOmapHeader/1", LAYOUT),
        ("BlueStore/DeferredWriteTest.NewData/5", LAYOUT),
    ],
)
def test_every_suite_of_bluestore_is_in_one_part(case: str, part: str) -> None:
    assert [filter_text for filter_text in (STORE, LAYOUT) if selects(filter_text, case)] == [part]


@pytest.mark.parametrize(
    "case",
    [
        "ObjectStore/StoreTest.SimpleRemount/0",
        "ObjectStore/StoreTestSpecificAUSize.SpilloverTest/2",
        "ObjectStore/StoreTest.ManySmallWrite/1",
        "ObjectStore/StoreTestSpecificAUSize.SyntheticMatrixNoCsum/1",
        "ObjectStore/StoreTestSpecificAUSize.ZeroBlockDetectionBigAppend/1",
    ],
)
def test_other_stores_and_what_takes_too_long_are_left_out(case: str) -> None:
    assert not any(selects(filter_text, case) for filter_text in (STORE, LAYOUT))


@pytest.mark.parametrize("worse", [-6, None])
def test_the_words_of_a_crash_go_before_those_of_a_failure(worse: int | None) -> None:
    ran = [GtestRun("p", (), code, f"words of {code}") for code in (0, 1, worse, 0)]
    assert objectstore.telling(ran).tail == f"words of {worse}"
    assert objectstore.telling(ran[:2]).tail == "words of 1"
