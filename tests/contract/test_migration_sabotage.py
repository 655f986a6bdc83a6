"""A migration that leaves out a step: the suite goes red, and says why."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.interop.recovery import SHORT_LOGS
from cephlab.suites.migration import swap
from cephlab.suites.migration.trial import trial
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real


@pytest.fixture
def cluster(home: Home) -> Iterator[Cluster]:
    topology = Topology(native=3, foreign=0, lone_client=True, options=SHORT_LOGS)
    with raised(LocalProvider(), topology, home) as cluster:
        yield cluster


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
    verdict = verdict_of(scenario, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("moved_bytes: "), verdict
