"""What the power-loss suite says of a disk that was flushed, and of one that never was."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.blockstack.logwrites import Survey
from cephlab.lab.checks import Outcome, Verdict
from cephlab.lab.checks.witnessed import witnessed
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.suites.powerloss import SCENARIOS, replayed


def judged(survey: Survey, monkeypatch: pytest.MonkeyPatch, scratch: Path) -> Verdict:
    clean = SimpleNamespace(clean=True, output="")
    monkeypatch.setattr(replayed, "fsck", lambda *_, **__: clean)
    recorder = History().recorder("powerloss.replayed")
    stage = Stage(cast("Any", SimpleNamespace(patience=1.0)), recorder, random.Random(1), scratch)
    log = SimpleNamespace(survey=lambda: survey, forward=lambda *_: None)
    replayed.replay(stage, cast("Any", None), cast("Any", log), replayed.until_the_cut)
    return witnessed(recorder.events())


def test_power_is_cut_on_machines_of_one_architecture_only_where_the_name_says_so() -> None:
    alike = [scenario for scenario in SCENARIOS if len(scenario.topology.spec(DEFAULT_RELEASE).archs) == 1]
    assert {scenario.name for scenario in alike} == {"powerloss.cut[pool=replicated,nodes=alike]", "powerloss.replayed"}


def test_a_disk_that_was_flushed_under_load_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert judged(Survey(900, 1 << 20, 40, {"cut": 880}), monkeypatch, tmp_path).outcome is Outcome.PASS


def test_too_few_flushes_show_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert judged(Survey(90, 1 << 20, 3, {"cut": 80}), monkeypatch, tmp_path).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("last", [0, 1, 2])
def test_an_osd_that_never_flushes_fails(last: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdict = judged(Survey(last + 1, 0, 0, {"cut": last}), monkeypatch, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("whether the disk was flushed while writes were acknowledged")
