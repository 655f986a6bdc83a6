"""ci/lxd on machines where LXD is absent, set up already, or new; no real one is touched."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fake_lxd import FakeLxd, serving

SCRIPT = Path(__file__).resolve().parents[3] / "ci" / "lxd"
NEEDED = ("bash", "timeout", "sleep", "tail")

Start = Callable[[], subprocess.CompletedProcess[str]]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH with what the script itself calls, and an ordinary user."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in NEEDED:
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    _program(folder, "id", "echo 1000")
    return folder


@pytest.fixture
def start(programs: Path, tmp_path: Path) -> Start:
    def started() -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(programs), "HOME": str(tmp_path), "LXD_DIR": str(tmp_path)}
        return subprocess.run([str(SCRIPT)], env=env, capture_output=True, text=True, timeout=30, check=False)

    return started


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[None]:
    with serving(FakeLxd(), tmp_path / "unix.socket"):
        yield


def _program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def _lxc(folder: Path, pools: str) -> Path:
    """An lxc whose LXD has these storage pools; it writes down all that it is asked."""
    log = folder / "log"
    _program(folder, "lxc", f'echo "$LXD_DIR $*" >>"{log}"; if [[ $2 == list ]]; then echo "{pools}"; fi')
    return log


def test_where_lxd_is_not_installed_the_packages_are_named(start: Start) -> None:
    ended = start()
    assert ended.returncode == 3
    assert "apt-get install lxd" in ended.stderr


@pytest.mark.slow
def test_an_ordinary_user_is_told_that_starting_it_takes_root(start: Start, programs: Path) -> None:
    _lxc(programs, "")
    ended = start()
    assert ended.returncode == 3
    assert "sudo ci/lxd" in ended.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("answering")
def test_one_that_is_set_up_stays_as_it_is(start: Start, programs: Path, tmp_path: Path) -> None:
    log = _lxc(programs, "default,zfs,,2,CREATED")
    ended = start()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert log.read_text().splitlines() == [f"{tmp_path} storage list --format csv"]


@pytest.mark.slow
@pytest.mark.usefixtures("answering")
def test_a_new_one_gets_storage(start: Start, programs: Path, tmp_path: Path) -> None:
    log = _lxc(programs, "")
    assert start().returncode == 0
    assert log.read_text().splitlines()[-1] == f"{tmp_path} storage create cephlab dir"
