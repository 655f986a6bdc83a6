"""The power-loss suite turns red over a disk that says a write is safe and forgets it when the power goes."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.blockstack.logwrites import Survey
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.powerloss.replayed import TOPOLOGY, replayed, until_the_cut
from tests.contract.raising import raised

pytestmark = pytest.mark.real

SEED = 4242
FORGOTTEN = 0.5
"""Of the log: half of the load's writes, far more than its last ones, whose answers may have been under way."""


@pytest.fixture
def stage(home: Home, tmp_path: Path) -> Iterator[Stage]:
    with raised(PROVIDERS["uml"](), TOPOLOGY, home) as cluster:
        yield stage_of(cluster, tmp_path)


def stage_of(cluster: Cluster, scratch: Path) -> Stage:
    return Stage(cluster, History().recorder("bites"), random.Random(SEED), scratch)


def half(survey: Survey) -> int:
    return int(until_the_cut(survey) * FORGOTTEN)


def test_a_disk_that_forgets_what_it_flushed_is_found(stage: Stage) -> None:
    replayed(stage, keep=half)
    verdict = CHECKS["recorded"](stage.recorder.events())
    assert verdict.outcome is Outcome.FAIL
    assert "lost" in verdict.reason or "stale" in verdict.reason
