"""A migration that leaves out a step: the suite goes red, and says why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lab.arch import host_arch
from lab.checks import Outcome
from lab.cluster import Cluster, raise_cluster
from lab.history import History
from lab.home import Home
from lab.providers.base import Images
from lab.providers.local import LocalProvider
from lab.runs import Runs
from lab.scenario import Scenario, Stage, Topology, run_scenario, seeded
from lab.spec import DEFAULT_RELEASE
from suites.migration import swap
from suites.migration.trial import SHORT_LOGS, trial

pytestmark = pytest.mark.real


@pytest.fixture
def cluster(images: Images, home: Home) -> Iterator[Cluster]:
    reason = LocalProvider().unavailable()
    if reason is not None:
        pytest.skip(str(reason))
    runs = Runs(home)
    run = runs.create("local")
    topology = Topology(native=3, foreign=0, lone_client=True, options=SHORT_LOGS)
    try:
        with raise_cluster(LocalProvider(), topology.spec(DEFAULT_RELEASE), images, run) as raised:
            raised.wait_healthy()
            yield raised
    finally:
        runs.forget(run)


def swap_here(stage: Stage) -> None:
    """The paper's steps within one architecture, which is quicker."""
    old = next(node for node in stage.cluster.spec.nodes if node.name == "n2")
    with trial(stage, swap.PAIRS) as running:
        swap.swap_out(running, old.name, swap.successor(old, host_arch(), "m0"))


def test_backfill_that_is_not_disabled_moves_more_than_it_had_to(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swap, "without_backfill", lambda _running: nullcontext())
    scenario = Scenario("migration.hasty", "", "", swap_here, check="recorded")
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), tmp_path))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("moved_bytes "), verdict
