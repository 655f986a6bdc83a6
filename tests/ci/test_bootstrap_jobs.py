"""ci/bootstrap: what each job installs beyond the rest, and where it may not."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.ci.test_bootstrap import PACKAGES, PINS, ROOT, Bench, bench, write_script

__all__ = ["bench"]

NOBODY = 65534
PIP = "-m pip --quiet --disable-pip-version-check --no-input install"
CONFIGURED = "-m pip config list"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "installed"),
    [
        (["demo"], True),
        (["guests"], True),
        (["uml"], True),
        (["gate", "--tier", "full", "--suite", "demo"], True),
        (["gate", "--suite=all"], True),
        (["gate", "--lab", "uml"], True),
        (["gate", "--lab", "local", "--suite", "other"], False),
        (["other"], False),
        (["install"], False),
    ],
)
def test_a_suite_gets_what_it_takes_and_other_jobs_do_not(bench: Bench, argv: list[str], *, installed: bool) -> None:
    bench.environment()
    for name in ("demo", "other"):
        (bench.root / "suites" / name).mkdir(parents=True)
        (bench.root / "suites" / name / "__init__.py").touch()
    rows = (
        "tables   guests,uml,demo   cmd:tables   tables of modules\nbeside   other+guests   cmd:beside   never alone\n"
    )
    (bench.root / "ci" / "packages.txt").write_text(PACKAGES + rows)
    for name in ("unpack-roots", "shout", "python3", "apt-get"):
        bench.record(name)
    bench.program("id", 'if [ "$1" = -u ]; then echo 0; else echo root; fi')
    said = bench.run("--check", *argv[:1]).stdout
    if "--suite" not in " ".join(argv) and "--lab" not in argv:
        assert ("tables: tables of modules" in said) == installed
    assert not any(line.startswith("apt-get") for line in bench.log())
    ended = bench.run(*argv)
    assert ended.returncode == 0, ended.stderr
    assert any(line.endswith(" tables") for line in bench.log()) == installed
    assert not any("beside" in line for line in bench.log())


@pytest.mark.slow
def test_what_the_suites_of_a_test_run_on_guests_take_is_installed_for_it(bench: Bench) -> None:
    bench.environment(cephlab="exit 0")
    (bench.root / "ci" / "packages.txt").write_text(PACKAGES + "tabler   test   cmd:table    makes the table\n")
    for name in ("unpack-roots", "shout", "python3", "apt-get"):
        bench.record(name)
    write_script(bench.root / "ci" / "lint", "exit 0")
    assert bench.run("install").returncode == 0
    assert "apt-get" not in "".join(bench.log())
    bench.program("id", "echo 0")
    assert bench.run("test").returncode == 0
    assert any(line.startswith("apt-get") and line.endswith(" tabler") for line in bench.log())
    packages = (ROOT / "ci" / "packages.txt").read_text().splitlines()
    assert [line.split()[1].split(",")[:2] for line in packages if line.startswith("kmod ")] == [["test", "guests"]]


@pytest.mark.slow
def test_what_a_probe_measures_with_is_installed_for_those_who_ask_for_it(bench: Bench) -> None:
    bench.environment()
    (bench.root / "ci" / "packages.txt").write_text(PACKAGES + "raters   probe   cmd:rate    rates the cores\n")
    for name in ("unpack-roots", "shout", "python3", "apt-get"):
        bench.record(name)
    bench.program("id", 'if [ "$1" = -u ]; then echo 0; else echo root; fi')
    for other in ("install", "--check"):
        assert "raters" not in bench.run(other).stdout
    assert "apt-get" not in "".join(bench.log())
    assert bench.run("probe").returncode == 0
    assert any(line.startswith("apt-get") and line.endswith(" raters") for line in bench.log())


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that every user may look into, which pytest's own are not."""
    with TemporaryDirectory(prefix="cephlab-bootstrap-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
def test_a_folder_of_another_user_is_said_alike_by_check_and_install(anybodys: Path) -> None:
    root = anybodys / "repository"
    (root / "ci").mkdir(parents=True)
    for name in ("ci/bootstrap", *PINS):
        shutil.copy(ROOT / name, root / name)
    (root / "ci" / "packages.txt").write_text("python3 always python: everything\n")
    root.chmod(0o555)
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    env = {"PATH": os.environ["PATH"], "HOME": str(anybodys), "DOCKER_HOST": "unix:///nonexistent"}
    said = []
    for argv in ("--check", "install"):
        done = subprocess.run(
            [root / "ci/bootstrap", argv], env=env, capture_output=True, text=True, timeout=60, check=False, **user
        )
        assert f"{root} is not writable for" in done.stdout + done.stderr, done
        said.append((done.returncode, done.stdout + done.stderr))
    (checked, told), (installed, refused) = said
    reason = next(line for line in told.splitlines() if "is not writable for" in line and ".venv" in line)
    assert reason.removeprefix("Python environment: ") in refused
    assert (checked, installed) == (0, 3)
    assert not (root / ".venv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "lock_name"), [("install", "requirements"), ("gate", "gate"), ("install gate", "gate")]
)
@pytest.mark.parametrize(
    ("settings", "uv_ends_with", "by"),
    [
        ("", 0, ["uv"]),
        ("", 1, ["uv", "pip"]),
        ("global.index-url='https://mirror.example/simple'", 0, ["pip"]),
        (":env:.extra-index-url='https://mirror.example/simple'", 0, ["pip"]),
        ("global.cert='/etc/ssl/mine.crt'", 0, ["uv"]),
    ],
)
def test_what_is_locked_is_installed_by_its_hashes_and_the_project_with_nothing_else(
    bench: Bench, settings: str, uv_ends_with: int, by: list[str], job: str, lock_name: str
) -> None:
    log, lock = bench.root / "log", bench.root / "ci" / f"{lock_name}.lock"
    (bench.root / "ci" / "requirements.lock").write_text(
        "abc==1 \\\n    --hash=sha256:1\nuv==2 \\\n    --hash=sha256:2\nxyz==3 \\\n    --hash=sha256:3\n"
    )
    bench.environment(
        python=f"""echo "$*" >>"{log}"; case "$*" in *stdin) cat >>"{log}";; *list) echo "{settings}";; esac""",
        uv=f'echo "uv $*" >>"{log}"; exit {uv_ends_with}',
    )
    (bench.root / ".venv" / "cephlab-installed").unlink()
    for name in ("unpack-roots", "shout", "python3"):
        bench.program(name, "exit 0")
    ended = bench.run(*job.split())
    assert ended.returncode == 0
    ways = {
        "uv": [
            f"{PIP} --require-hashes --requirement /dev/stdin",
            "uv==2 \\",
            "    --hash=sha256:2",
            f"uv pip install --quiet --cache-dir {bench.root}/.venv/uv-cache --python {bench.root}/.venv/bin/python "
            f"--compile-bytecode --require-hashes --requirements {lock}",
        ],
        "pip": [f"{PIP} --require-hashes --requirement {lock}"],
    }
    assert bench.log() == [
        CONFIGURED,
        *(line for way in by for line in ways[way]),
        f"{PIP} --no-deps --no-build-isolation --editable {bench.root}",
    ]
    assert ("trying pip" in ended.stderr) is (by == ["uv", "pip"])
    assert ".venv is up to date" in bench.run("--check", job.rsplit(maxsplit=1)[-1]).stdout
    assert ".venv is up to date" in bench.run("--check", "gate").stdout
    assert (".venv is up to date" in bench.run("--check", "test").stdout) is (job == "install")
    lock.write_text(lock.read_text() + "new==1 \\\n    --hash=sha256:4\n")
    assert ".venv would be created or updated" in bench.run("--check", job.rsplit(maxsplit=1)[-1]).stdout
