"""The suite of known defects: what a program says becomes a try, and rare ones are tried as often as asked."""

import re
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.checks import Outcome
from cephlab.lab.scenario.scenario import Tier
from cephlab.suites.defects import SCENARIOS, rare
from cephlab.suites.defects.shown import KNOWN, PROGRAMS, program_of
from tests.fake_stage import verdict_of

TEXTS = {defect.name: program_of(defect) for defect in KNOWN.values() if defect.program}
"""Program -> its text, as a host and a developer of Ceph get it."""
QUEUE = next(scenario for scenario in SCENARIOS if scenario.name == "defects.cls-queue-lost-entries")


def pushed(source: bytes, target: PurePosixPath) -> None:
    """Takes a program that is one file, as nothing else of the folder is there."""
    assert target.suffix == ".sh"
    assert source.decode() in TEXTS.values()


def cluster(said: str, *, code: int = 0, version: str = "18.2.7") -> SimpleNamespace:
    """One whose host's programs say something and end; the shell is this machine's."""
    host = SimpleNamespace(
        directory=PurePosixPath("/h"),
        push=pushed,
        remove=lambda path: None,
        interactive=lambda argv, env, terminal: ("sh", "-c", f"echo '{said}'; echo trouble >&2; exit {code}"),
    )
    client = SimpleNamespace(host=host, mon=lambda prefix: {"version": f"ceph version {version} (abc) reef (stable)"})
    return SimpleNamespace(client=client, patience=1.0, daemons={}, hosts={})


@pytest.mark.parametrize(
    ("fake", "outcome", "begins"),
    [
        (cluster("seen: one is left"), Outcome.PASS, "still there: seen in 1 of 1 try with Ceph 18.2.7: one is left"),
        (cluster("not seen: all are there"), Outcome.FAIL, "gone, although this very version had it"),
        (cluster("not seen: all", version="21.0.0"), Outcome.PASS, "gone (news: "),
        (cluster("seen: one", code=2), Outcome.INCONCLUSIVE, "no try could tell"),
        (cluster("nothing of the kind"), Outcome.INCONCLUSIVE, "no try could tell"),
    ],
)
def test_what_the_program_says_decides(fake: SimpleNamespace, outcome: Outcome, begins: str) -> None:
    verdict = verdict_of(QUEUE, fake)
    assert verdict.outcome is outcome
    assert verdict.reason.startswith(begins)


def test_every_defect_of_the_list_has_one_scenario_or_says_why_not() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert sorted(names) == sorted(f"defects.{defect.name}" for defect in KNOWN.values() if defect.scenario)
    assert [d.name for d in KNOWN.values() if not d.scenario and "suite" not in d.text] == []


def test_programs_clean_up_and_stop_at_the_first_error() -> None:
    for name, text in TEXTS.items():
        assert "set -euo pipefail" in text, name
        assert "mktemp" not in text or re.search(r"^trap '.*\brm -r .*' EXIT$", text, re.MULTILINE), name


def test_a_program_is_one_file_whatever_it_shares_with_others() -> None:
    assert [name for name, text in TEXTS.items() if re.search(r"^(source|\.) ", text, re.MULTILINE)] == []
    for path in PROGRAMS.glob("shared/*.sh"):
        shared = path.read_text().splitlines()[1:]  # without the line that names the interpreter
        assert [name for name, text in TEXTS.items() if "\n".join(shared) in text], path.name


def test_rare_ones_are_of_the_full_tier_and_tried_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {scenario.tier for scenario in rare.SCENARIOS} == {Tier.FULL}
    monkeypatch.setenv(rare.TRIES_VARIABLE, "5")
    noted: list[Any] = []
    stage: Any = SimpleNamespace(
        cluster=cluster(""), recorder=SimpleNamespace(record=lambda kind, **data: noted.append((kind, data)))
    )
    rare.try_often(stage, KNOWN["mds-stop-hangs"], lambda _stage: (False, "it ended"))
    assert [kind for kind, _ in noted] == ["known_defect", *["defect_try"] * 5]
    assert noted[0][1]["command"] == KNOWN["mds-stop-hangs"].command, "the report for a developer tells it"
