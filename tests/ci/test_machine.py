"""ci/machine, the script that makes and starts emulated machines: what it asks for and what it refuses."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Stand-ins in front of PATH: mmdebstrap writes down its words and fails, id says who is asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    stand_in(folder, "mmdebstrap", f'printf "%s\\n" "$@" >"{tmp_path}/words"; exit 9')
    stand_in(folder, "id", 'echo "${CALLER:-0}"')
    return folder


def stand_in(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def machine(*words: str, programs: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    path = ":".join([str(programs)] * (programs is not None) + ["/usr/sbin:/usr/bin:/sbin:/bin"])
    environment = {**os.environ, "PATH": path, **env}
    argv = [str(ROOT / "ci/machine"), *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=20, check=False)


def test_a_machine_gets_a_kernel_and_what_cephlab_always_wants(tmp_path: Path, programs: Path) -> None:
    arch = platform.machine()
    done = machine(str(tmp_path / "m"), "make", "--arch", arch, "--with", "podman,crun", programs=programs)
    assert done.returncode == 9, done.stderr
    words = (tmp_path / "words").read_text().splitlines()
    included = next(word for word in words if word.startswith("--include=")).removeprefix("--include=").split(",")
    rows = [line.split() for line in (ROOT / "ci/packages.txt").read_text().splitlines() if line[:1] not in ("", "#")]
    assert {row[0] for row in rows if row[1] in ("always", arch)} <= set(included)
    assert {f"linux-image-cloud-{DEBIAN[arch]}", "systemd-sysv", "openssh-server", "podman", "crun"} <= set(included)
    assert "docker.io" not in included
    assert words[-2:] == ["bookworm", str(tmp_path / "m" / "tree")]


def test_a_root_that_did_not_come_whole_becomes_no_disk(tmp_path: Path, programs: Path) -> None:
    assert machine(str(tmp_path / "m"), "make", "--arch", platform.machine(), programs=programs).returncode == 9
    assert not (tmp_path / "m" / "disk").exists()
    assert not (tmp_path / "m" / "unpacked").exists()
    assert machine(str(tmp_path / "m"), "start").returncode == 3


def test_only_root_makes_one(tmp_path: Path, programs: Path) -> None:
    done = machine(str(tmp_path / "m"), "make", programs=programs, CALLER="1000")
    assert (done.returncode, done.stderr) == (3, "machine: only root can make a root tree, with files of all owners\n")
    assert not (tmp_path / "words").exists()


@pytest.mark.parametrize("boots", [True, False])
def test_kvm_is_used_where_it_boots_the_kernel(tmp_path: Path, programs: Path, *, boots: bool) -> None:
    arch = platform.machine()
    tries = "Attempted to kill init! exitcode=0x00000000" if boots else "failed to set MSR 0x10a to 0x69"
    words = tmp_path / "words"
    version = "QEMU emulator version 10.0.13"
    script = f'*-daemonize*) echo "$*" >"{words}" ;; --version) echo "{version}" ;; *) echo "{tries}" ;;'
    stand_in(programs, f"qemu-system-{arch}", f'case "$*" in {script} esac')
    (tmp_path / "arch").write_text(arch)
    done = machine(str(tmp_path), "start", programs=programs)
    assert done.returncode == 3
    assert "ended while starting" in done.stderr
    by_kvm = boots and os.access("/dev/kvm", os.W_OK)
    assert f"-accel {'kvm' if by_kvm else 'tcg,thread=multi'} " in words.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "whole"), [("7.2.22 (Debian 1:7.2)", False), ("10.0.13 (Debian 1:10.0)", True)])
def test_an_emulated_processor_is_one_that_numpy_takes_where_qemu_can(
    tmp_path: Path, programs: Path, version: str, *, whole: bool
) -> None:
    words = tmp_path / "words"
    script = f'*-daemonize*) echo "$*" >"{words}" ;; --version) echo "QEMU emulator version {version}" ;;'
    stand_in(programs, "qemu-system-x86_64", f'case "$*" in {script} esac')
    (tmp_path / "arch").write_text("x86_64")
    done = machine(str(tmp_path), "start", programs=programs)
    assert ("-cpu max,-la57 " in words.read_text()) is whole
    assert ("NumPy refuses to run on it" in done.stderr) is not whole


@pytest.mark.parametrize("action", ["start", "run true"])
def test_a_folder_without_a_machine_is_named(tmp_path: Path, action: str) -> None:
    done = machine(str(tmp_path), *action.split())
    assert done.returncode == 3
    assert str(tmp_path) in done.stderr


def test_a_machine_that_does_not_run_is_stopped_already(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(str(os.getpid()))  # a number that went to another program
    assert machine(str(tmp_path), "stop").returncode == 0


@pytest.mark.parametrize(
    "words", [(), ("folder",), ("folder", "eat"), ("folder", "make", "--arch", "vax"), ("folder", "start", "--memory")]
)
def test_wrong_use_shows_the_usage(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = machine(*(str(tmp_path) if word == "folder" else word for word in words))
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ci/machine FOLDER make")
