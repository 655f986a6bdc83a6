"""ci/lint with recording stand-ins for the tools: it runs them all, finds every script and fails at the end."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("ruff", "deptry", "codespell", "shellcheck", "actionlint")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of ci/lint, one more script and one Python program."""
    root = tmp_path / "checkout"
    (root / "ci").mkdir(parents=True)
    shutil.copy(ROOT / "ci" / "lint", root / "ci" / "lint")
    (root / "nested").mkdir()
    (root / "nested" / "run").write_text("#!/bin/sh\ntrue\n")
    (root / "nested" / "tool").write_text("#!/usr/bin/env python3\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def lint(checkout: Path, *, failing: str = "", without: str = "") -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run it; returns how it ended and what the tools were called with."""
    stand_ins = checkout.parent / "bin"
    stand_ins.mkdir()
    log = checkout.parent / "log"
    for name in TOOLS:
        if name != without:
            program = stand_ins / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >>"{log}"\n[ {name} != "{failing}" ]\n')
            program.chmod(0o755)
    for name in ("bash", "dirname", "env", "git", "sh"):
        (stand_ins / name).symlink_to(shutil.which(name) or name)
    env = {**os.environ, "PATH": str(stand_ins), "CEPHLAB_HOME": str(checkout.parent / "home")}
    ended = subprocess.run(
        [str(checkout / "ci" / "lint")], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    return ended, log.read_text().splitlines()


def test_every_tool_runs_and_every_script_is_found(checkout: Path) -> None:
    ended, calls = lint(checkout)
    assert ended.returncode == 0, ended.stdout
    assert calls[:3] == ["ruff check .", "ruff format --check .", "deptry ."]
    assert calls[3].startswith("deptry tests docs ")
    assert calls[4:6] == ["codespell ", "shellcheck ci/lint nested/run"]
    assert calls[6].startswith("actionlint ")


@pytest.mark.parametrize("tool", TOOLS)
def test_one_finding_fails_it_after_all_have_run(checkout: Path, tool: str) -> None:
    ended, calls = lint(checkout, failing=tool)
    assert ended.returncode == 1
    assert len(calls) == 7
    assert "lint: failed: " in ended.stdout
    assert tool in ended.stdout.splitlines()[-1]


def test_actionlint_is_skipped_by_name_where_nothing_can_build_it(checkout: Path) -> None:
    ended, calls = lint(checkout, without="actionlint")
    assert ended.returncode == 0
    assert len(calls) == 6
    assert "actionlint skipped" in ended.stdout
