"""Which runs there are below a home, what is never taken for one, and how their files are written."""

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import (
    HOME_MARK,
    LABEL,
    RUN_VARIABLE,
    Run,
    RunId,
    Runs,
    ours,
    remove_tree,
    run_ids,
    taken,
    write_json,
    write_private,
)
from tests.fake_provider import abandoned_run
from tests.strangers import Strangers

NO_IDS = ("", ".", "..", "../../victim", "/etc", "a/b", "-a", "A", "a_b", "a.b", "a\n", "a b", "ä", "a" * 32)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").ensure()


def ids(home: Home) -> list[str]:
    return [run.id for run in Runs(home).all()]


def test_a_run_knows_its_home(home: Home) -> None:
    assert Runs(home).create("container").home == home


@pytest.mark.parametrize("text", NO_IDS)
def test_what_is_no_id_becomes_none(home: Home, text: str) -> None:
    with pytest.raises(SpecError, match="is not a valid name for a cluster"):
        RunId(text)
    raw: str = text
    with pytest.raises(SpecError, match="is not a valid name for a cluster"):
        Run(raw, home.runs / "one")  # type: ignore[arg-type]


def test_of_many_texts_the_ids_are_taken() -> None:
    assert run_ids([*NO_IDS, "r0", "a-1", "a" * 31]) == {"r0", "a-1", "a" * 31}


def test_folders_that_are_no_runs_of_this_user_are_none(home: Home, tmp_path: Path, strangers: Strangers) -> None:
    for name in ("mine", "theirs", "Odd Name"):
        (home.runs / name).mkdir()
    (home.runs / ".subnets.lock").touch()
    strangers.own(home.runs / "theirs")
    (tmp_path / "victim").mkdir()
    (home.runs / "linked").symlink_to(tmp_path / "victim")
    assert ids(home) == ["mine"]
    assert [folder.name for folder in Runs(home).others()] == ["Odd Name", "linked", "theirs"]
    for name, said in (("theirs", "theirs is of user"), ("linked", "linked is a link to")):
        with pytest.raises(SpecError, match=said):
            Runs(home).get(name)


def test_what_is_no_run_of_this_user_is_not_forgotten(home: Home, tmp_path: Path, strangers: Strangers) -> None:
    (home.runs / "theirs" / "disks").mkdir(parents=True)
    strangers.own(home.runs / "theirs")
    with pytest.raises(LabBroken, match="not a run of this user"):
        Runs(home).forget(Run(RunId("theirs"), home.runs / "theirs"))
    assert (home.runs / "theirs" / "disks").is_dir()


def test_a_run_of_an_older_cephlab_is_found_by_the_same_marks(home: Home) -> None:
    """They are on processes and containers that outlive the command which made them."""
    assert (RUN_VARIABLE, HOME_MARK, LABEL) == ("CEPHLAB_RUN", "CEPHLAB_RUN_HOME", "cephlab.run")
    run = Runs(home).create("container", "one")
    assert run.state_file == home.runs / "one" / "cluster.json"
    assert set(run.owner()) == {"pid", "birth", "kept", "provider", "at"}


def test_what_is_taken_is_told_with_what_is_there(tmp_path: Path) -> None:
    folder, link, gone = (tmp_path / name for name in ("folder", "link", "gone"))
    folder.mkdir()
    folder.chmod(0o750)
    link.symlink_to("/elsewhere")
    error = taken(folder, "a link")
    assert (error.what, error.hint) == (f"{folder} is taken", f"check it, then remove it: {folder}")
    assert error.detail == f"got: drwxr-x--- of user {os.geteuid()}; wanted: a link"
    assert taken(link, "a file").detail == f"got: lrwxrwxrwx of user {os.geteuid()}, to /elsewhere; wanted: a file"
    assert "No such file" in taken(gone, "a file").detail
    assert not ours(gone, stat.S_ISDIR)


# Owners


def test_a_run_is_this_users_alone_and_says_who_made_it(tmp_path: Path) -> None:
    run = Runs(Home(tmp_path / "new")).create("container")
    assert re.fullmatch(r"r[0-9a-f]{6}", run.id)
    assert run.directory.stat().st_mode & 0o777 == 0o700
    owner = run.owner()
    assert (owner["pid"], owner["provider"], owner["kept"]) == (os.getpid(), "container", False)
    assert abs(owner["at"] - time.time()) < 60
    assert not run.abandoned()


def test_a_name_is_given_once(home: Home) -> None:
    Runs(home).create("local", "one")
    with pytest.raises(SpecError) as error:
        Runs(home).create("local", "one")
    assert error.value.what == "a cluster called 'one' already exists"


def test_a_home_without_runs_has_none(tmp_path: Path) -> None:
    empty = Runs(Home(tmp_path / "nowhere"))
    assert (list(empty.all()), empty.others()) == ([], [])
    with pytest.raises(SpecError) as error:
        empty.get("one")
    assert error.value.detail == "clusters: none"


def test_a_kept_run_outlives_its_owner(home: Home) -> None:
    lost, kept = abandoned_run(home, "lost"), abandoned_run(home, "kept")
    write_json(kept.directory / "owner.json", {**kept.owner(), "kept": True})
    assert (lost.kept, kept.kept) == (False, True)
    assert (lost.abandoned(), kept.abandoned()) == (True, False)


@pytest.mark.parametrize(("age_s", "abandoned"), [(4.5, False), (5.0, False), (5.5, True)])
def test_a_run_without_an_owner_gets_a_while_to_have_one(
    home: Home, monkeypatch: pytest.MonkeyPatch, age_s: float, abandoned: bool
) -> None:
    directory = home.runs / "new"
    assert Run(RunId("new"), directory).abandoned(), "not even a directory"
    directory.mkdir()
    os.utime(directory, (1_000_000, 1_000_000))
    monkeypatch.setattr("cephlab.lab.base.runs.time", SimpleNamespace(time=lambda: 1_000_000 + age_s))
    assert Run(RunId("new"), directory).abandoned() is abandoned


# Removing


def test_what_goes_away_meanwhile_is_no_error_and_what_stays_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.unlink

    def unlink(path: str, **options: Any) -> None:
        if path == "stuck":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        real(path, **options)
        if path == "gone":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    monkeypatch.setattr(os, "unlink", unlink)
    first, second = (Runs(home).create("local", name) for name in ("first", "second"))
    (first.directory / "gone").touch()
    assert remove_tree(first.directory) == []
    assert not first.directory.exists()
    (second.directory / "stuck").touch()
    with pytest.raises(LabBroken, match="second could not be removed") as error:
        Runs(home).forget(second)
    lines = error.value.detail.splitlines()
    assert lines[0] == f"{second.directory / 'stuck'}: [Errno 1] Operation not permitted"
    assert [path.name for path in second.directory.iterdir()] == ["stuck"]


# Writing


@pytest.fixture
def umask() -> Iterator[Any]:
    """os.umask, and what it was afterwards."""
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def test_a_file_is_never_open_to_more_than_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: Any
) -> None:
    at_first, real = [], os.fchmod

    def fchmod(descriptor: int, mode: int) -> None:
        at_first.append(os.fstat(descriptor).st_mode & 0o777)
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", fchmod)
    write_private(tmp_path / "own", b"")
    write_json(tmp_path / "own.json", {})
    write_json(tmp_path / "all.json", {}, mode=0o644)
    assert at_first == [0o600, 0o600, 0o644]
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [0o644, 0o600, 0o600]


def test_a_mode_does_not_depend_on_the_umask(tmp_path: Path, umask: Any) -> None:
    umask(0o077)
    write_private(tmp_path / "all", b"", mode=0o644)
    assert (tmp_path / "all").stat().st_mode & 0o777 == 0o644


def test_what_a_killed_process_of_this_id_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f"file.{os.getpid()}.{threading.get_ident()}").write_bytes(b"half")
    write_private(tmp_path / "file", b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"whole")]


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(LabBroken, match="folder cannot be written") as caught:
        write_private(tmp_path / "folder", b"")
    assert caught.value.detail == "Is a directory", "the name of a file that is gone helps nobody"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_json_is_written_for_people_to_read(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 2, "a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": [\n    1\n  ],\n  "b": 2\n}\n'
