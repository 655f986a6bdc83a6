"""ci/tests.txt: what `ci/bootstrap test` runs has of every suite at least one scenario, so that none rots unseen."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LIST = "ci/tests.txt"


IN_TESTS = {"profile": "tests/suites/test_profile_suite.py"}
"""Suites that need no cluster, so that the lab's own tests run them whole."""


def suites() -> set[str]:
    return {path.parent.name for path in (ROOT / "suites").glob("*/test_*.py")} - set(IN_TESTS)


def test_a_suite_without_clusters_is_run_by_a_test() -> None:
    assert all(f'suites=("{suite}",)' in (ROOT / path).read_text() for suite, path in IN_TESTS.items())


def test_the_weekly_full_tier_has_a_machine_for_each_suite() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/scheduled.yml").read_text())["jobs"]
    weekly = [job for name, job in jobs.items() if name.startswith("weekly")]
    assert {suite for job in weekly for suite in json.loads(job["with"]["suites"])} == suites()


def listed() -> list[str]:
    """What is run of suites; the lab's own tests come first."""
    first, *others = (ROOT / LIST).read_text().splitlines()
    assert first == "tests"
    return others


def unseen(lines: Sequence[str]) -> set[str]:
    """Suites that a list has nothing of."""
    return suites() - {line.split("/")[1] for line in lines if line.startswith("suites/")}


@pytest.mark.real
def test_every_suite_has_a_scenario_that_every_push_runs(tmp_path: Path) -> None:
    """By pytest's own word: it refuses what is not there, and leaves out what the quick tier has not."""
    assert f"done <{LIST}" in (ROOT / "ci/bootstrap").read_text()
    (tmp_path / "list").write_text("\n".join(listed()) + "\n")
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", f"@{tmp_path / 'list'}"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    ran = [line for line in done.stdout.splitlines() if "::" in line]
    assert unseen(ran) == set()
    assert {line for line in listed() if line.startswith("suites/") and "::" in line} - set(ran) == set()


def test_what_is_left_to_the_contracts_own_job_exists() -> None:
    left = [line.removeprefix("--deselect=") for line in listed() if line.startswith("-")]
    assert [line for line in listed() if not line.startswith(("suites/", "--deselect=tests/contract/"))] == []
    for path, _, name in (line.partition("::") for line in left):
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), name


@pytest.mark.parametrize("suite", sorted(suites()))
def test_a_suite_that_nothing_is_run_of_is_seen(suite: str) -> None:
    assert unseen([line for line in listed() if not line.startswith(f"suites/{suite}")]) == {suite}
