"""pjdfstest of CephFS: how its output is read, and what makes it red."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.workloads.gtest import CaseResult, GtestRun
from cephlab.suites.cephfs import posix
from cephlab.suites.cephtests.programs import Known, read_known, record_run

SAID = """
unlink::eloop_comp                                                            ok
unlink::erofs_named                                                      skipped
\tRemounts (allow_remount) are not allowed in the configuration file
chmod::failed_chmod_unchanged_ctime::block                                FAILED
\tassertion `left == right` failed
  left: 1
 right: 2
chown::enotdir_component::char                                                ok

Summary: 1 failed, 1 skipped, 2 passed, 0 expected failures, 4 total
"""
"""As version 0.2.2 prints it."""
BLOCK = "chmod.failed_chmod_unchanged_ctime/block"


def judged(said: str, code: int | None, *known: Known) -> Outcome:
    recorder = History().recorder("cephfs.pjdfstest")
    record_run(recorder, GtestRun(posix.PROGRAM, tuple(posix.parse(said)), code, said), known)
    recorder.observe("cases", got=posix.total(said), wanted=len(list(posix.parse(said))))
    recorder.witness("requests", got=1, least=1)
    return CHECKS["gtest"](recorder.events()).outcome


def test_each_case_is_read_with_what_was_wrong() -> None:
    cases = {case.name: case for case in posix.parse(SAID)}
    assert [case.result for case in cases.values()] == [
        CaseResult.PASS,
        CaseResult.SKIP,
        CaseResult.FAIL,
        CaseResult.PASS,
    ]
    assert list(cases) == ["unlink.eloop_comp", "unlink.erofs_named", BLOCK, "chown.enotdir_component/char"]
    assert cases[BLOCK].message.splitlines() == ["assertion `left == right` failed", "  left: 1", " right: 2"]
    assert cases["chown.enotdir_component/char"].message == ""
    assert posix.total(SAID) == len(cases)


def test_a_case_that_failed_is_red_unless_it_is_known() -> None:
    reason = "a reason that is long enough to be one"
    assert judged(SAID, 1) is Outcome.FAIL
    assert judged(SAID, 1, Known(program=posix.PROGRAM, case=BLOCK, reason=reason)) is Outcome.PASS


def test_a_run_that_was_cut_off_is_red() -> None:
    cut = SAID.partition("chmod")[0]
    assert posix.total(cut) == 0
    assert [case.result for case in posix.parse(cut)] == [CaseResult.PASS, CaseResult.SKIP]
    assert judged(cut, None) is Outcome.FAIL


def test_without_the_program_the_skip_has_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(posix.VARIABLE, raising=False)
    with pytest.raises(Unavailable) as lack:
        posix.program()
    assert "cargo install pjdfstest" in lack.value.hint
    monkeypatch.setenv(posix.VARIABLE, str(tmp_path))
    with pytest.raises(SpecError, match="does not name a file"):
        posix.program()
    (tmp_path / "pjdfstest").touch()
    monkeypatch.setenv(posix.VARIABLE, str(tmp_path / "pjdfstest"))
    assert posix.program() == tmp_path / "pjdfstest"


def test_every_known_case_is_of_this_program() -> None:
    assert {entry.program for entry in read_known(posix.LIST)} <= {posix.PROGRAM}
