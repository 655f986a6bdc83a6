"""Commands that are printed for a person work as they are printed: by the shell's own name, or by a path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fixtures.entering import called, ways_in
from lab.home import Home, standard_home


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the command in it, below the working directory."""
    folder = tmp_path / "project/.venv/bin"
    folder.mkdir(parents=True)
    for name in ("python", "cephlab"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path / "project")
    return folder / "cephlab"


def test_what_is_not_on_the_path_is_called_by_its_place(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called("cephlab gate --seed 5", standard_home()) == ".venv/bin/cephlab gate --seed 5"
    monkeypatch.chdir("/usr")
    assert called("cephlab gate", standard_home()) == f"{own} gate"


def test_what_is_on_the_path_is_called_by_its_name(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(own.parent))
    assert called("cephlab gate", standard_home()) == "cephlab gate"


def test_another_of_the_same_name_is_not_meant(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "cephlab"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert called("cephlab gate", standard_home()) == ".venv/bin/cephlab gate"


def test_a_folder_of_its_own_is_named(own: Path) -> None:
    assert ways_in("r1", Home(Path("/data/my lab"))) == [
        "CEPHLAB_HOME='/data/my lab' .venv/bin/cephlab ceph r1 -s",
        "CEPHLAB_HOME='/data/my lab' .venv/bin/cephlab shell r1 n0",
        "CEPHLAB_HOME='/data/my lab' .venv/bin/cephlab down r1",
    ]
