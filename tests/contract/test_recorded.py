"""A recorded load on a real cluster, honest and lying: the first is found whole, the second is found out."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.home import Home
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from tests.contract.raising import raised

pytestmark = pytest.mark.real

CLIENTS = ("c0", "c1")
LOAD_S = 4.0
FEW_KEYS = 4
"""Of each client, so that reads often meet a write that is under way."""


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    topology = Topology(native=2, foreign=0, clients=True)
    with (
        raised(LocalProvider(), topology, home) as cluster,
        pools.pool(cluster, "live", pools.PoolKind("pairs", 2)),
    ):
        yield cluster


def judged(cluster: Cluster, load: Load) -> Verdict:
    """What the check says of a few seconds of a load."""
    recorder = History().recorder(load.name)
    recorded = RecordedLoad(cluster, recorder, load)
    recorded.prepare()
    with recorded.running():
        Deadline.after(LOAD_S).pause(LOAD_S)
    recorded.verify()
    recorded.clean()
    return CHECKS["recorded"](recorder.events())


def test_an_honest_load_is_found_whole(cluster: Cluster) -> None:
    load = Load(pool="live", nodes=CLIENTS, seed=1, keys=FEW_KEYS)
    for honest in (load, replace(load, name="blocks", kind="blocks")):
        verdict = judged(cluster, honest)
        assert verdict.outcome is Outcome.PASS, verdict


def test_a_client_that_acknowledges_before_the_write_is_found_out(cluster: Cluster) -> None:
    """By a read that overtakes a write: of a few seconds on a slow machine there may be none, of several times are."""
    liar = Load(pool="live", nodes=CLIENTS, seed=2, keys=FEW_KEYS, acknowledge_early=True)
    verdicts = (judged(cluster, replace(liar, seed=seed, name=f"liar{seed}")) for seed in range(2, 7))
    failure = next((verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL), None)
    assert failure is not None
    assert "stale read" in failure.reason or "lost" in failure.reason
