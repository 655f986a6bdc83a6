"""What an error tells its reader to do can be done where cephlab is installed too."""

from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from cephlab.lab.base.errors import (
    CleanUp,
    CleanupFailed,
    DaemonDied,
    LabBroken,
    NotReached,
    SpecError,
    page_paths,
    try_all,
)


def test_an_installed_page_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "docs" / "measured").mkdir(parents=True)
    for name in ("docs/attach.md", "docs/measured/model.md"):
        (tmp_path / name).touch()
    hint = "see docs/attach.md: may-break; docs/measured/model.md, docs/none.md"
    wanted = f"see {tmp_path}/docs/attach.md: may-break; {tmp_path}/docs/measured/model.md, docs/none.md"
    assert page_paths(hint, tmp_path) == wanted
    # An error that was told in another's words comes by here again.
    assert page_paths(wanted, tmp_path) == wanted


def test_a_checkouts_page_is_named_as_it_is_where_that_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "cephlab"
    pages = tmp_path / "docs"
    for folder in (package, pages, tmp_path / "mine" / "docs"):
        folder.mkdir(parents=True)
    (pages / "attach.md").touch()
    (package / "docs").symlink_to("../docs")
    monkeypatch.chdir(tmp_path)
    assert page_paths("see docs/attach.md", package) == "see docs/attach.md"
    for elsewhere in (package.parent / "mine", package / ".." / "docs"):
        monkeypatch.chdir(elsewhere)
        assert page_paths("see docs/attach.md", package) == f"see {pages}/attach.md"


@pytest.mark.parametrize("mode", [0o700, 0o000], ids=["pages of others", "closed"])
def test_an_error_is_told_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(mode)
    try:
        assert page_paths("see docs/attach.md", Path("/nowhere")) == "see docs/attach.md"
    finally:
        tmp_path.chmod(0o700)


def test_an_error_names_the_pages_of_this_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = Path(__file__).parents[3]
    monkeypatch.chdir(checkout)
    assert SpecError("no", hint="see docs/attach.md").hint == "see docs/attach.md"
    monkeypatch.chdir(checkout / "tests")
    assert SpecError("no", hint="see docs/attach.md").hint == f"see {checkout}/docs/attach.md"


def test_a_dead_daemon_promises_its_log_only_where_it_still_is() -> None:
    died = DaemonDied("osd.0", "n0", "ceph-osd", "last words", "", 5)
    assert "if the cluster was kept" in died.hint


def test_every_step_is_tried_and_every_failure_is_told() -> None:
    done: list[object] = []

    def fail(error: Exception) -> None:
        done.append(error)
        raise error

    first, second = NotReached("quorum", 3, "none"), LabBroken("no such disk", "/dev/b")
    with pytest.raises(NotReached) as caught:
        try_all([partial(fail, first), partial(fail, second), partial(done.append, "last")])
    assert done == [first, second, "last"]
    told = "last state: none\nanother step failed too: no such disk\n/dev/b"
    assert str(caught.value) == f"quorum was not reached within 3.0 s\n{told}"


def test_an_interruption_ends_all_steps_at_once() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        try_all([Mock(side_effect=KeyboardInterrupt), partial(done.append, "late")])
    assert not done


def test_a_clean_up_goes_on_after_a_step_that_failed_and_tells_it_at_the_end() -> None:
    clean_up, done = CleanUp(), []
    for name, error in {"n0": LabBroken("down"), "n1": None, "": OSError("busy")}.items():
        with clean_up.step(name):
            if error is not None:
                raise error
            done.append(name)
    assert done == ["n1"]
    with pytest.raises(CleanupFailed, match="2 clean-up steps failed") as failed:
        clean_up.end()
    assert failed.value.errors == ("n0: down", "busy")
    assert failed.value.hint == "fix the causes above, then run `cephlab prune`"
    CleanUp().end()


def test_a_clean_up_hides_no_mistake_of_the_lab() -> None:
    with pytest.raises(ZeroDivisionError), CleanUp().step():
        raise ZeroDivisionError
