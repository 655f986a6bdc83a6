"""ci/bootstrap as people meet it: run for real, in a copy of the repository where it could do harm."""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = """
# package   when     proof                purpose
python3     always   python:              everything: cephlab is a Python program
unpacker    always   cmd:unpack-roots     images: unpacks roots
shouter     always   cmd:shout            nothing much: shouts
"""

PINS = ("pyproject.toml", "ci/requirements.lock")

# What the script itself calls; everything else is absent from the made-up machine's PATH.
NEEDED = (
    "bash",
    "cat",
    "cut",
    "dirname",
    "env",
    "grep",
    "head",
    "rm",
    "sed",
    "sha256sum",
    "sort",
    "timeout",
    "tr",
    "uname",
)


@dataclass(frozen=True)
class Bench:
    """A copy of the scripts and a machine made of a PATH with nothing on it but what a test puts there."""

    root: Path
    bin: Path

    def program(self, name: str, body: str) -> None:
        write_script(self.bin / name, body)

    def environment(self, **bodies: str) -> None:
        """A .venv that bootstrap takes for up to date, of scripts; each does nothing unless its body is given."""
        venv = self.root / ".venv"
        (venv / "bin").mkdir(parents=True)
        for name in ("cephlab", "tox", "python", "mypy", "mkdocs", "uv"):
            write_script(venv / "bin" / name, bodies.get(name, "exit 0"))
        pins = b"".join((self.root / name).read_bytes() for name in PINS) + f"{venv}\n".encode()
        listed = ("tests", "suites/demo", "--deselect=tests/x.py", "suites/other/test_other.py::test_scenario[a]")
        (self.root / "ci" / "tests.txt").write_text("\n".join(listed) + "\n")
        (venv / "cephlab-installed").write_text(hashlib.sha256(pins).hexdigest() + "\n")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "HOME": str(self.root), "DOCKER_HOST": "unix:///nonexistent"}
        return subprocess.run(
            [str(self.root / "ci" / "bootstrap"), *argv],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def log(self) -> list[str]:
        """What the recording programs were called with."""
        path = self.root / "log"
        return path.read_text().splitlines() if path.exists() else []

    def record(self, name: str, *, then: str = "exit 0") -> None:
        self.program(name, f'echo "{name} $*" >>"{self.root}/log"\n{then}')


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    root = tmp_path / "repository"
    (root / "ci").mkdir(parents=True)
    for name in (*PINS, "ci/gate.lock"):
        shutil.copy(ROOT / name, root / name)
    script = (ROOT / "ci" / "bootstrap").read_text()
    outside = ":/usr/local/sbin:/usr/sbin:/sbin"
    assert outside in script
    _write_program(root / "ci" / "bootstrap", script.replace(outside, ""))
    (root / "ci" / "packages.txt").write_text(PACKAGES)
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        program = shutil.which(name)
        assert program is not None
        (tmp_path / "bin" / name).symlink_to(program)
    made = Bench(root, tmp_path / "bin")
    made.program("id", 'if [ "$1" = -u ]; then echo 1000; else echo ana; fi')
    return made


def write_script(path: Path, body: str) -> None:
    _write_program(path, f"#!/bin/bash\n{body}\n")


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def real(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "ci" / "bootstrap"), *argv],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_a_suite_is_a_job_as_the_help_says() -> None:
    assert "ci/bootstrap SUITE" in real("--help").stdout
    assert real("--check", "powerloss").returncode == 0
    for argv in (["--check", "frobnicate"], ["--check", "powerloss", "x"], ["powerloss", "x"]):
        assert real(*argv).returncode == 2


def test_help_names_every_subcommand() -> None:
    shown = real("--help")
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("gate", "test", "install", "--check", "CEPHLAB_HOME"))


@pytest.mark.parametrize(
    "argv", [[], ["--nonsense"], ["frobnicate"], ["test", "x"], ["--check", "x"], ["install", "-f"]]
)
def test_wrong_use_is_2_with_the_usage(argv: list[str]) -> None:
    refused = real(*argv)
    assert refused.returncode == 2
    assert "usage: ci/bootstrap gate" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("argv", [["gate", "--check"], ["dmcache", "--check"], ["gate", "-k", "x", "--check"]])
def test_check_behind_a_job_installs_nothing_either(argv: list[str], tmp_path: Path) -> None:
    refused = real(*argv, CEPHLAB_HOME=str(tmp_path / "cache"))
    assert refused.returncode == 2
    assert f"--check comes first: ci/bootstrap --check {argv[0]}" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_check_answers_and_changes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "cache"
    answer = real("--check", CEPHLAB_HOME=str(home))
    assert answer.returncode == 0, answer.stderr
    assert f"cache: {home}" in answer.stdout
    assert "distribution packages" in answer.stdout
    assert not home.exists()


def test_check_names_what_is_missing_and_why(bench: Bench) -> None:
    bench.record("apt-get")
    bench.record("sudo")
    answer = bench.run("--check")
    assert answer.returncode == 0, answer.stderr
    assert "unpacker: images: unpacks roots" in answer.stdout
    assert "python3: everything" in answer.stdout
    assert ".venv would be created" in answer.stdout
    assert bench.log() == ["sudo -n true"]


@pytest.mark.parametrize("there", ["run-static", "run", "run-fast"])
def test_a_package_is_there_under_any_of_its_commands_names(bench: Bench, there: str) -> None:
    (bench.root / "ci" / "packages.txt").write_text(PACKAGES + "runner  always  cmd:run-static|run|run-fast  runs\n")
    assert "runner: runs" in bench.run("--check").stdout
    bench.program(there, "exit 0")
    assert "runner" not in bench.run("--check").stdout


def test_install_asks_sudo_for_just_the_missing_packages(bench: Bench) -> None:
    bench.record("sudo")
    bench.record("apt-get")
    bench.program("unpack-roots", "exit 0")
    bench.program("python3", "exit 0")
    ended = bench.run("install")
    updates = [line for line in bench.log() if line.endswith("update")]
    installs = [line for line in bench.log() if " install " in line]
    assert len(updates) == len(installs) == 1, ended.stderr
    assert installs[0].startswith("sudo -n env DEBIAN_FRONTEND=noninteractive apt-get")
    assert installs[0].endswith("install --no-install-recommends shouter")


@pytest.mark.parametrize(("argv", "has"), [(["install"], "and what"), (["install", "gate"], "without what")])
def test_install_says_what_is_ready_and_what_to_run_next(bench: Bench, argv: list[str], has: str) -> None:
    bench.environment()
    ended = bench.run(*argv)
    assert ended.returncode == 0, ended.stderr
    assert f"ready: {bench.root}/.venv/bin/cephlab, {has} checks and tests need\n" in ended.stderr
    assert "next: .venv/bin/cephlab doctor, then .venv/bin/cephlab gate\n" in ended.stderr


def test_root_needs_no_sudo(bench: Bench) -> None:
    bench.program("id", "echo 0")
    bench.record("apt-get")
    bench.record("sudo")
    bench.run("install")
    assert len(bench.log()) == 2
    assert all(line.startswith("apt-get") for line in bench.log())


def test_a_failing_apt_stops_with_3(bench: Bench) -> None:
    bench.program("id", "echo 0")
    bench.record("apt-get", then="exit 100")
    ended = bench.run("install")
    assert ended.returncode == 3
    assert "apt could not install" in ended.stderr


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        ((), "this is not Debian or Ubuntu"),
        (("apt-get",), "neither root nor sudo is available"),
    ],
)
def test_without_the_means_it_says_so_and_goes_on(bench: Bench, programs: tuple[str, ...], sentence: str) -> None:
    for name in programs:
        bench.record(name)
    bench.environment(cephlab=f'echo "$*" >>"{bench.root}/log"')
    ended = bench.run("gate")
    assert ended.returncode == 0, ended.stderr
    assert sentence in ended.stderr
    assert "unpacker: images" in ended.stderr
    assert bench.log() == ["gate"]


def test_without_python_it_stops_with_the_remedy(bench: Bench) -> None:
    ended = bench.run("install")
    assert ended.returncode == 3
    assert "no Python 3.11 or newer" in ended.stderr


def test_the_file_that_tox_leaves_in_the_environments_place_gives_way(bench: Bench) -> None:
    (bench.root / ".venv").write_text(".tox/lint\n")
    bench.record("python3", then=f'case "$*" in *venv*clear*) [ ! -e "{bench.root}/.venv" ] || exit 1;; esac')
    bench.run("install")
    assert f"python3 -m venv --clear {bench.root}/.venv" in bench.log()
    assert not (bench.root / ".venv").exists()


def test_gate_hands_its_options_and_its_status_on(bench: Bench) -> None:
    bench.environment(cephlab=f'echo "$*" >>"{bench.root}/log"; exit 6')
    assert bench.run("gate", "--tier", "full").returncode == 6
    assert bench.log() == ["gate --tier full"]


@pytest.mark.parametrize("name", PINS)
def test_changed_pins_make_the_environment_stale(bench: Bench, name: str) -> None:
    bench.environment()
    assert ".venv is up to date" in bench.run("--check").stdout
    with (bench.root / name).open("a") as pins:
        pins.write("# changed\n")
    assert ".venv would be" in bench.run("--check").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lint", "types", "site", "codes", "expected"),
    [
        (0, 0, 0, (0, 0, 0), 0),
        (1, 0, 0, (0, 0, 0), 1),
        (0, 1, 0, (0, 0, 0), 1),
        (0, 0, 1, (0, 0, 0), 1),
        (0, 0, 0, (1, 0, 0), 1),
        (0, 0, 0, (0, 1, 0), 1),
        (0, 0, 0, (0, 0, 3), 3),
        (1, 1, 1, (5, 1, 2), 5),
    ],
)
def test_the_tests_end_with_pytest_and_fail_with_any(
    bench: Bench, *, lint: int, types: int, site: int, codes: tuple[int, int, int], expected: int
) -> None:
    code, scenarios_code, suites_code = codes
    write_script(bench.root / "ci" / "lint", f"echo lint; exit {lint}")
    bench.environment(
        mypy=f"echo mypy $*; exit {types}",
        mkdocs=f"echo mkdocs $*; exit {site}",
        python=f'echo pytest $*; echo "== 3 passed =="; case "$*" in '
        f"*::*) exit {scenarios_code};; *suites*) exit {suites_code};; esac; exit {code}",
    )
    ended = bench.run("test")
    assert ended.returncode == expected, ended.stderr
    lines = ended.stdout.splitlines()
    home = lines[1].removeprefix("mypy --cache-dir ").removesuffix("/mypy")
    assert Path(home).is_absolute()  # what CEPHLAB_HOME moves
    assert lines[:3] == ["lint", f"mypy --cache-dir {home}/mypy", "mkdocs build --strict --quiet"]
    parts = ("tests --deselect=tests/x.py", "suites/other/test_other.py::test_scenario[a]", "--sample suites/demo")
    ran = [re.sub("--shard [12]/2 ", "", line.partition(" -m not bench")[0]) for line in lines[3::2]]
    assert ran == [f"pytest -m pytest {part}" for part in parts]
    assert lines[4::2] == ["== 3 passed =="] * 3
    whose = re.findall("bootstrap: the .+ ended with exit code (.+); their", ended.stderr)
    assert whose == [str(code) for code in codes if code]
    assert ("failed: lint" in ended.stderr) == (lint != 0)
    assert ("failed:" in ended.stderr) == (lint + types + site != 0)


@pytest.mark.slow
def test_tests_that_take_too_long_are_interrupted(bench: Bench) -> None:
    bench.environment(
        python="trap 'echo == interrupted $$ ==; exit 2' INT; for ((;;)); do read -rt 0.1 <> <(:) || :; done"
    )
    script = bench.root / "ci" / "bootstrap"
    script.write_text(script.read_text().replace("CEPHLAB_TEST_LIMIT:-75m", "CEPHLAB_TEST_LIMIT:-1s"))
    ended = bench.run("test")
    assert ended.returncode == 124, ended.stderr
    # timeout signals its program and then its group, so that either may say it twice.
    assert len(set(re.findall(r"^== interrupted \d+ ==$", ended.stdout, re.MULTILINE))) == 3
    assert ended.stdout.splitlines()[-1].startswith("== interrupted ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "groups", "engine", "started", "sentence"),
    [
        (0, "root", "exit 0", True, ""),
        (0, "root", "exit 3", True, "the engine could not be started"),
        (0, "root", "exit 2", True, ""),
        (1000, "ana docker", "exit 0", True, ""),
        (1000, "ana", "exit 0", False, "ana may not use Docker"),
    ],
)
def test_an_engine_is_started_for_those_it_would_serve(
    bench: Bench, user: int, groups: str, *, engine: str, started: bool, sentence: str
) -> None:
    bench.environment()
    for name in ("unpack-roots", "shout", "python3", "dockerd"):
        bench.program(name, "exit 0")
    bench.program("id", f'case "$1" in -u) echo {user} ;; -nG) echo {groups} ;; *) echo ana ;; esac')
    bench.program("sudo", 'shift; "$@"')
    write_script(bench.root / "ci" / "engine", f'echo started >>"{bench.root}/log"; {engine}')
    checked = bench.run("--check")
    assert checked.returncode == 0, checked.stderr
    assert ("ci/engine starts it, as root" in checked.stdout) == started, "what install does is what --check says"
    ended = bench.run("install")
    assert ended.returncode == 0, ended.stderr
    assert bench.log() == (["started"] if started else [])
    doubts, _, ready = ended.stderr.partition("bootstrap: ready: ")
    assert sentence in doubts
    assert bool(doubts) == bool(sentence)
    assert ".venv/bin/cephlab" in ready
    if not started:
        assert checked.stderr == doubts, "an ordinary user is told one reason"


def test_an_engine_elsewhere_is_left_alone_and_that_sounds_like_no_failure() -> None:
    named = {**os.environ, "DOCKER_HOST": "unix:///nonexistent"}
    ended = subprocess.run(["bash", ROOT / "ci/engine"], env=named, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert re.fullmatch(r"engine: none started: DOCKER_HOST is unix:///nonexistent, .*\n", ended.stderr)


def test_lxd_is_installed_and_started_for_those_who_ask_for_it(bench: Bench) -> None:
    bench.environment()
    (bench.root / "ci" / "packages.txt").write_text(PACKAGES + "machines    lxd      cmd:machines         instances\n")
    for name in ("unpack-roots", "shout", "python3", "apt-get"):
        bench.record(name)
    bench.program("id", 'if [ "$1" = -u ]; then echo 0; else echo root; fi')
    write_script(bench.root / "ci" / "lxd", f'echo "lxd started" >>"{bench.root}/log"')
    assert bench.run("install").returncode == 0
    assert "apt-get" not in "".join(bench.log())
    ended = bench.run("lxd")
    assert ended.returncode == 0, ended.stderr
    assert any(
        line.startswith("apt-get") and line.endswith(" install --no-install-recommends machines")
        for line in bench.log()
    )
    assert bench.log()[-1] == "lxd started"


@pytest.mark.parametrize(("when", "installed"), [("always+lxd", True), ("lxd+guests", False), ("guests+lxd", False)])
def test_a_package_may_have_several_conditions(bench: Bench, when: str, installed: bool) -> None:
    bench.environment()
    (bench.root / "ci" / "packages.txt").write_text(PACKAGES + f"machines  {when}  cmd:machines  instances\n")
    for name in ("unpack-roots", "shout", "python3", "apt-get"):
        bench.record(name)
    bench.program("id", 'if [ "$1" = -u ]; then echo 0; else echo root; fi')
    write_script(bench.root / "ci" / "lxd", "true")
    ended = bench.run("lxd")
    assert ended.returncode == 0, ended.stderr
    assert any(line.endswith(" machines") for line in bench.log()) == installed
