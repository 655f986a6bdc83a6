"""Which folder is the home, and which ones are refused before anything starts."""

import errno
import getpass
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken, LabError, SpecError
from cephlab.lab.base.home import HOME_VARIABLE, Home, default_home, home_at
from tests.cli.test_cli_clusters import call, leaves
from tests.fake_provider import FakeProvider, abandoned_run, providers

ROOT = Path(__file__).resolve().parents[2]

ODD = (
    *("/a#b", "/a;b", "/a$b", "/a\\b", '/a"b', "/a'b", "/a,b", "/a:b"),
    *("/a b", " /a", "/a ", "/a\n", "/a\rb", "/a\tb", "/a\u00a0b", "/\x01", "/\x7f"),
)


@pytest.mark.parametrize("path", ODD)
def test_what_ceph_cannot_run_from_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, path)
    with pytest.raises(SpecError, match=f"^{HOME_VARIABLE} does not name a folder") as caught:
        default_home()
    assert caught.value.detail.startswith(f"got {path!r}, wanted a path without")
    with pytest.raises(SpecError, match="--home does not name a folder"):
        home_at(path, "--home")


def test_an_empty_home_is_refused_with_the_folder_that_is_taken_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/srv/cache")
    with pytest.raises(SpecError, match=f"^{HOME_VARIABLE} is empty") as caught:
        default_home()
    assert caught.value.hint == "unset it for /srv/cache/cephlab, or set it to a folder"
    with pytest.raises(SpecError, match="--home does not name a folder"):
        home_at("", "--home")


@pytest.mark.parametrize(
    ("number", "kind", "what"),
    [
        (errno.ENOSPC, LabBroken, "the disk of {} is full"),
        (errno.EIO, SpecError, "the cache folder {} cannot be written"),
    ],
    ids=["full", "broken"],
)
def test_a_home_that_takes_no_data_is_refused_and_no_part_of_a_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[LabError], what: str
) -> None:
    def refuse(path: Path, _content: bytes) -> int:
        path.touch()
        raise OSError(number, os.strerror(number))  # as of write(2): it names no file

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(kind, match=what.format(tmp_path)) as caught:
        Home(tmp_path).ensure()
    assert "None" not in caught.value.detail
    assert caught.value.hint
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_lies_below_an_odd_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a#b"
    odd.mkdir()
    monkeypatch.chdir(odd)
    monkeypatch.setenv(HOME_VARIABLE, "lab")
    with pytest.raises(SpecError, match="a#b/lab"):
        default_home()
    monkeypatch.delenv(HOME_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(odd))
    with pytest.raises(SpecError, match=r"by default(.|\n)*a#b/cephlab"):
        default_home()


def test_ordinary_paths_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, "/srv/Jörg_1.2-x+y@z=%/lab~")
    assert default_home() == Home(Path("/srv/Jörg_1.2-x+y@z=%/lab~"))


@pytest.mark.slow
@pytest.mark.parametrize("below", ["", "deeper/home"])
def test_a_home_that_is_no_folder_is_refused_by_each_command_that_uses_one(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    world = World(Home(tmp_path / "file" / below), providers(FakeProvider()))
    without = {("doctor",), ("compare",), ("tune", "ls"), ("tune", "show")}
    for words in [words for words in commands() if not any(tuple(words[: len(own)]) == own for own in without)]:
        result = call(world, *words)
        assert result.exit_code == 2, (words, result.output)
        assert f"error: the home {world.home.path} is not a folder\n  got {tmp_path / 'file'}" in result.stderr, words
        assert HOME_VARIABLE in result.stderr
        assert result.stdout == ""


def test_a_home_that_may_not_be_looked_into_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)
    for words in (["ls"], ["track"], ["predict", "--profile", "kunpeng920"], ["profile", "ls"]):
        result = call(World(Home(tmp_path / "deeper"), providers(FakeProvider())), *words)
        assert result.exit_code == 2, result.output
        assert f"error: the home {tmp_path / 'deeper'} cannot be read\n  got {tmp_path}, which" in result.stderr


def test_a_home_below_a_folder_that_is_shut_is_looked_for_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut(path: Path) -> bool:
        if path != tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        return True

    monkeypatch.setattr(Path, "exists", shut)
    assert Home(tmp_path / "shut" / "home").nearest == tmp_path


def test_a_machine_is_not_ready_where_its_home_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    world = World(Home(tmp_path / "file"), providers(FakeProvider()))
    result = call(world, "doctor", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["ready"] is False
    shown = call(world, "doctor")
    assert shown.exit_code == 3
    assert "error: no lab can run here\n  cache folder: " in shown.stderr


def test_what_is_listed_and_removed_is_said_to_be_of_which_home(tmp_path: Path) -> None:
    world = World(Home(tmp_path / "home"), providers(FakeProvider()))
    for command in ("ls", "prune"):
        assert f"home: {tmp_path / 'home'}" in call(world, command).stderr
        assert json.loads(call(world, command, "--json").stdout)["home"] == str(tmp_path / "home")


def test_runs_of_another_user_are_listed_as_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Home(tmp_path / "home").ensure(), providers(FakeProvider()))
    abandoned_run(world.home, "theirs")
    user = getpass.getuser()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    [row] = json.loads(call(world, "ls", "--json").stdout)["clusters"]
    assert (row["name"], row["state"]) == ("theirs", f"of user {user}")
    assert f"of user {user}" in call(world, "ls").stdout
    for command in ("status", "down"):
        result = call(world, command, "theirs")
        assert result.exit_code == 2
        assert f"error: theirs is of user {user}" in result.stderr
    assert (world.home.runs / "theirs").is_dir()


def commands() -> list[list[str]]:
    """Every command, with as many words as it needs to be understood."""
    root = typer.main.get_command(app)

    def paths(command: Any, words: list[str]) -> list[list[str]]:
        below = getattr(command, "commands", None)
        if below is not None:
            return [path for name, subcommand in below.items() for path in paths(subcommand, [*words, name])]
        for parameter in command.params:
            if parameter.required:
                words = [*words, *([] if parameter.param_type_name == "argument" else parameter.opts[:1]), "x"]
        return [words]

    return paths(root, [])


@pytest.mark.slow
def test_no_command_takes_an_empty_variable_for_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(HOME_VARIABLE, "")
    assert len(commands()) >= len(leaves(typer.main.get_command(app)))
    for words in commands():
        result = CliRunner().invoke(app, [*words, *(["--json"] if words[0] not in ("ceph", "shell") else [])])
        assert result.exit_code == 2, words
        assert f"{HOME_VARIABLE} is empty" in result.stdout + result.stderr, words
    assert list(tmp_path.iterdir()) == []


def test_bootstrap_does_not_take_an_empty_variable_for_the_default() -> None:
    environment = {**os.environ, HOME_VARIABLE: ""}
    refused = subprocess.run(
        [shutil.which("bash") or "bash", str(ROOT / "ci/bootstrap"), "--check"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "CEPHLAB_HOME: got ''" in refused.stderr


@pytest.mark.parametrize("command", ["ls", "prune"])
def test_the_home_that_was_looked_at_is_named(tmp_path: Path, command: str) -> None:
    world = World(Home(tmp_path).ensure(), providers(FakeProvider()))
    abandoned_run(world.home, "lost")
    arguments = [command, *(["--dry-run"] if command == "prune" else [])]
    assert f"home: {tmp_path}" in call(world, *arguments).stderr
    assert json.loads(call(world, *arguments, "--json").stdout)["home"] == str(tmp_path)
