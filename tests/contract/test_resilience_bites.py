"""The resilience suite's proofs turn red where something is wrong: a lying client, a lost replica, a skipped repair."""

import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.ceph.daemon import Wanted
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.faults import copies, inflict, layout_of
from cephlab.lab.faults.copies import NEEDLE_BYTES, flip_bit
from cephlab.lab.faults.daemons import KillEverything, PauseDaemon, at_work
from cephlab.lab.history.history import History
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads.recorded import RecordedLoad
from cephlab.suites.resilience import SCENARIOS
from cephlab.suites.resilience.trial import THREE, agreed, goes_on, linger, new_load
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real

PAIRS = PoolKind("pairs", 2)
SEED = 20_181
OBJECT_BYTES = 256 << 10
WORK_S = (1.5, 1.5)
REST_S = 0.25


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    """Three machines and one for clients, on the cheapest provider: what is tested here is the suite."""
    with raised(PROVIDERS["local"](), THREE, home) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: Cluster, tmp_path: Path) -> Stage:
    return Stage(cluster, History().recorder("bites"), random.Random(SEED), tmp_path)


def verdict(stage: Stage) -> Verdict:
    return CHECKS["recorded"](stage.recorder.events())


def signal_clients(load: RecordedLoad, number: signal.Signals) -> None:
    for client in load._clients:
        client.process.signal(number)


def kill_clients(load: RecordedLoad) -> None:
    """SIGKILL to the load's programs, so that nothing of what they have in flight is ever sent again."""
    signal_clients(load, signal.SIGKILL)
    with suppress(LabBroken):  # which says that they ended by themselves
        load.stop()


def crashed_with_its_clients(stage: Stage, *, acknowledge_early: bool) -> Verdict:
    """Everything is killed under a load, and its clients too while nothing is there to take their writes."""
    cluster = stage.cluster
    with pools.pool(cluster, "doubted", pg_num=8) as pool:
        load = new_load(stage, pool)
        load.load = replace(load.load, acknowledge_early=acknowledge_early, read_share=0.0, pause_s=REST_S)
        load.prepare()
        load.start()
        linger(stage.rng, *WORK_S)
        # Held until nobody is left to take a write, while those under way end: a write of a worker that goes on then
        # is one of which no OSD knows. What had reached an OSD would be there again, acknowledged early or not.
        signal_clients(load, signal.SIGSTOP)
        linger(stage.rng, *WORK_S)
        with inflict(KillEverything.aim(layout_of(cluster), stage.rng), cluster, stage.recorder):
            signal_clients(load, signal.SIGCONT)
            linger(stage.rng, *WORK_S)
            kill_clients(load)
        cluster.wait_healthy()
        load.verify()
        agreed(stage, pool)
    return verdict(stage)


def test_an_honest_client_that_is_killed_lies_not(stage: Stage) -> None:
    """First: Ceph itself may lose a write of a crash to the next one, see docs/resilience.md."""
    judgement = crashed_with_its_clients(stage, acknowledge_early=False)
    assert judgement.outcome is not Outcome.FAIL, judgement
    assert "cut short" in judgement.reason  # its clients were killed, which alone leaves a load undecided


def test_a_client_that_acknowledges_before_the_write_is_found_out(stage: Stage) -> None:
    judgement = crashed_with_its_clients(stage, acknowledge_early=True)
    assert judgement.outcome is Outcome.FAIL
    assert "lost" in judgement.reason


def test_a_repair_that_is_skipped_is_found_out(stage: Stage) -> None:
    cluster = stage.cluster
    content = random.Random(SEED).randbytes(OBJECT_BYTES)
    with pools.pool(cluster, "rotten", PAIRS, pg_num=1) as pool:
        cluster.client.write_full(pool, "o", content)
        daemon = cluster.daemon(f"osd.{pools.locate(cluster, pool, 'o')['acting'][1]}")
        cluster.client.command(daemon.name, "flush_store_cache")
        flip_bit(daemon.host, daemon.disks[0], [content[:NEEDLE_BYTES]])
        agreed(stage, pool)
    judgement = CHECKS["observations"](stage.recorder.events())
    assert judgement.outcome is Outcome.FAIL
    assert "PGs whose copies differ" in judgement.reason


@pytest.mark.parametrize("kind", ["mgr", "mon", "osd"])
def test_a_daemon_counts_as_held_once_its_kernel_says_so(stage: Stage, kind: str) -> None:
    cluster = stage.cluster
    name = layout_of(cluster).daemons(kind)[-1]
    daemon = cluster.daemon(name)
    daemon.wanted = Wanted.PAUSED  # the lab means to, and nothing was sent
    assert at_work(cluster, name)
    daemon.wanted = Wanted.RUNNING
    with inflict(PauseDaemon(name), cluster, stage.recorder) as sign:
        assert sign.got >= sign.least
        assert not at_work(cluster, name)
    assert at_work(cluster, name)
    cluster.wait_healthy()


@pytest.mark.parametrize("name", ["bit-rot", "missing-object"])
def test_a_fault_whose_repair_is_skipped_turns_its_own_scenario_red(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The scenario as it is, its fault as it is, and Ceph is never told to mend anything."""
    scenario = next(known for known in SCENARIOS if known.name == f"resilience.fault[{name}]")
    monkeypatch.setattr(copies, "repair", lambda *_arguments: None)
    judgement = verdict_of(scenario, cluster, tmp_path, seed=SEED)
    assert judgement.outcome is Outcome.FAIL, judgement
    assert f"{name}: PGs of canary whose copies still differ" in judgement.reason


def test_min_size_1_with_a_lost_replica_is_found_out(stage: Stage) -> None:
    """One copy takes writes alone, is lost for good, and the stale copy is made the truth: last, as it spoils."""
    cluster = stage.cluster
    pools.create(cluster, "thin", PAIRS, pg_num=1, options={"min_size": "1"})
    load = new_load(stage, "thin")
    load.prepare()
    first, second = pools.locate(cluster, "thin", "any")["acting"]
    cluster.client.mon("osd set", key="noout")
    with load.running():
        linger(stage.rng, *WORK_S)
        cluster.kill(f"osd.{second}")
        cluster.wait(lambda status: not status.all_up, what=f"osd.{second} down")
        goes_on(load)  # osd.{first} takes writes alone
        linger(stage.rng, *WORK_S)
        cluster.kill(f"osd.{first}")
        cluster.wait(lambda status: status.osds_up == status.osds - 2, what=f"osd.{first} down too")
        cluster.start(f"osd.{second}")
        cluster.wait(lambda status: status.osds_up == status.osds - 1, what=f"osd.{second} up")
        cluster.client.mon("osd lost", id=first, yes_i_really_mean_it=True)
        cluster.wait(
            lambda status: status.pgs > 0 and all("active" in state.split("+") for state in status.pg_states),
            what="PGs that serve again",
        )
        linger(stage.rng, *WORK_S)
    load.verify()
    judgement = verdict(stage)
    assert judgement.outcome is Outcome.FAIL
    assert "lost" in judgement.reason or "stale" in judgement.reason
