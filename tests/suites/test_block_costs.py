"""What `block.cost` compares itself with when nobody stored a baseline: earlier runs in the archives of its home."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.history.history import data_of
from cephlab.lab.scenario.scenario import run_scenario
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.suites.block import costs
from tests.fake_stage import stage_of
from tests.lab.archive.test_costs import PLACE, keep
from tests.suites.test_suite_sabotage import measurement

STEADY = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0)


def here(seed: int, factor: float = 1.0, operations: int = 14_000) -> Measurement:
    measured = measurement(seed, factor, operations)
    return replace(measured, conditions={**measured.conditions, **PLACE, "operations": str(operations)})


def kept(home: Path, factors: Sequence[float], **manifest: Any) -> None:
    """One archived run in each hour, whose OSDs cost so many times the usual."""
    for hour, factor in enumerate(factors):
        started = datetime(2026, 11, 26, hour, tzinfo=UTC).isoformat()
        keep(Home(home).archive, f"run-{hour}", here(hour, factor), scenario="suite.topic", started=started, **manifest)


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the scenario with this measurement: (verdict, why of the noted CPU time, data of all changes)."""
    monkeypatch.setattr(costs, "require_metered", lambda *_: None)
    monkeypatch.setattr(costs, "image_key", lambda _: "key")
    monkeypatch.setattr(costs, "machine", dict)

    def run(measured: Measurement) -> tuple[Verdict, str, list[Mapping[str, Any]]]:
        monkeypatch.setattr(costs, "measure", lambda *_, **__: measured)
        stage = stage_of(SimpleNamespace(name="fake", run=Run(RunId("r1"), tmp_path / "runs" / "r1")))
        verdict = run_scenario(costs.SCENARIOS[0], stage)
        events = stage.recorder.events()
        (why,) = (e.data["why"] for e in events if e.kind == "figure" and e.data["metric"].startswith("CPU of rand"))
        return verdict, why, data_of(events, "change")

    return run


def test_without_any_earlier_run_that_is_noted(judged: Any) -> None:
    verdict, why, changes = judged(here(50))
    assert (verdict.outcome, changes) == (Outcome.PASS, [])
    assert why == "no earlier run to compare with, and no baseline: `cephlab measure --save-baseline` stores one"


def test_one_earlier_run_is_named_and_a_rise_above_it_is_shown(judged: Any, tmp_path: Path) -> None:
    kept(tmp_path, [1.0])
    verdict, why, changes = judged(here(50))
    assert (verdict.outcome, why) == (Outcome.PASS, "compared with 1 earlier run of 1 hour: run-0")
    assert changes[0].items() >= {"what": "CPU of OSDs", "hours": 1, "earlier": ["run-0"], "found": 1.25}.items()
    verdict, why, changes = judged(here(50, 1.5))
    assert (verdict.outcome, "CPU of OSDs" in {data["what"] for data in changes}) == (Outcome.PASS, False)
    assert "1 hour: run-0; not judged with fewer than 6 hours: CPU of OSDs: " in why


def test_a_rise_above_runs_of_enough_hours_is_a_regression(judged: Any, tmp_path: Path) -> None:
    kept(tmp_path, STEADY)
    verdict, why, changes = judged(here(50))
    assert (verdict.outcome, why) == (Outcome.PASS, "compared with 6 earlier runs of 6 hours: run-0 to run-5")
    assert changes[0]["earlier"] == [f"run-{hour}" for hour in range(6)]
    verdict, _, _ = judged(here(50, 1.5))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("CPU of OSDs: +")


def test_a_smaller_rise_is_shown_with_its_interval_and_decides_nothing(judged: Any, tmp_path: Path) -> None:
    kept(tmp_path, STEADY)
    verdict, why, changes = judged(here(50, 1.08))
    assert (verdict.outcome, changes) == (Outcome.PASS, [])
    assert "run-0 to run-5; not judged: CPU of OSDs: " in why
    assert re.search(r", \+1\d\.\d % \[-\d+\.\d % \.\. \+\d+\.\d %\]$", why), why


def test_red_runs_do_not_count(judged: Any, tmp_path: Path) -> None:
    kept(tmp_path, STEADY, exit_code=1)
    assert judged(here(50, 1.5))[0].outcome is Outcome.PASS


def test_runs_of_few_operations_do_not_count(judged: Any, tmp_path: Path) -> None:
    few = here(1, operations=costs.LEAST_OPERATIONS - 1)
    keep(Home(tmp_path).archive, "few", few, scenario="suite.topic")
    assert judged(here(50))[1].startswith("no earlier run")


def test_a_stored_baseline_goes_before_earlier_runs(judged: Any, tmp_path: Path) -> None:
    kept(tmp_path, STEADY)
    demandfile.store_baseline(Home(tmp_path), here(1, 1.5))
    verdict, why, changes = judged(here(50, 1.5))
    assert (verdict.outcome, why) == (Outcome.PASS, "compared with its baseline")
    assert "hours" not in changes[0]


def test_an_earlier_run_without_a_cost_to_compare_says_why(judged: Any, tmp_path: Path) -> None:
    bare = here(1)
    keep(Home(tmp_path).archive, "bare", replace(bare, batches=bare.batches[:1]), scenario="suite.topic")
    verdict, why, changes = judged(here(50))
    assert (verdict.outcome, changes) == (Outcome.PASS, [])
    assert why.startswith("compared with 1 earlier run of 1 hour: bare; ")
    assert why.endswith("none of its costs has two batches on both sides")
