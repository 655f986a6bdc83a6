"""Limits of ratios, made again from the model's parts: which runs, disks and requests each of them counts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.demand import Demand
from cephlab.suites.gains import OverCache, of_database, of_growth, of_mode, of_tier
from cephlab.tuning import gain
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.gain import Gain
from cephlab.tuning.model import predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import load_hardware
from cephlab.tuning.workload import Flow, Shape
from tests.suites.test_gains import HDD, LOAD, NVME, TIER, stage_on
from tests.tuning.test_comparison import oltp

HERE = Bound("as the paper has it", least=1.0, basis=Basis.SHAPE)
THREADS = 4
"""Of a database, each with one request in flight."""


def parts(stage: Stage) -> tuple[tuple[Demand, ...], Profile]:
    return find_demands(stage.cluster.run.home.demands)[0], load_hardware(Path(stage.profile)).profile


def told(made: Gain, when: str) -> Bound:
    factor = f"a factor of {made.value:.3g} ({made.low:.3g} to {made.high:.3g})"
    why = f"mine should gain {factor}, {when}"
    return Bound(why, least=made.low, derivation=made.derivation.lines(), basis=Basis.PROFILE)


def test_a_tier_may_gain_what_its_two_kinds_of_disks_make_of_its_hits(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, HDD, NVME)
    demands, machines = parts(stage)
    slow, fast = (gain.on_cluster(demands, each, LOAD) for each in gain.classes_of(machines))
    wanted = told(gain.of_cache(slow, fast, 0.85), "when 0.85 of randwrite hit")
    assert of_tier(stage, LOAD, 0.85, HERE) == wanted


def test_a_cache_keeps_all_requests_at_the_client_unless_it_says_otherwise() -> None:
    assert OverCache("x") == OverCache("x", frozenset({Flow.READ, Flow.WRITE}), on_cluster=False)
    assert OverCache("x").on_cluster is False
    assert of_mode(DmCacheMode.WRITEBACK) == OverCache("writeback", frozenset({Flow.READ, Flow.WRITE}))
    assert of_mode(DmCacheMode.WRITETHROUGH) == OverCache("writethrough", frozenset({Flow.READ}))
    assert of_mode(DmCacheMode.PASSTHROUGH) == OverCache("passthrough", frozenset())


def note(stage: Stage, cache: str, tps: Sequence[float], requests: tuple[float, float], threads: int = THREADS) -> None:
    """One run; a cache has looks of which 3 of 4 hit in each second."""
    for second in range(8) if cache != "none" else ():
        counters = {"op_cache_hit": 3 * second, "tier_proxy_read": 0, "tier_proxy_write": second, "tier_evict": 0}
        mapped = {"write_hits": 3 * second, "write_misses": second}
        looked = "tier" if cache == "tier" else "cache"
        stage.recorder.record(looked, stand=f"{cache}, {THREADS}", counters=counters, **mapped)
    reads, writes = requests
    run = oltp(cache, threads, tps, traffic={"rbd": {"reads": reads, "writes": writes}})
    stage.recorder.record(run.kind, **run.data)


def waits(stage: Stage, kind: str, count: float) -> list[gain.Wait]:
    """On the whole cluster, on its slow and its fast disks as far as it has two kinds, and at the client."""
    demands, machines = parts(stage)
    shape = Shape(kind, 4096, 1, THREADS, replicas=1)
    each = (machines, *(gain.classes_of(machines) if len(machines.nodes[0].disks) > 1 else ()))
    waited = [gain.on_cluster(demands, disks, shape) for disks in each]
    if machines.clients[0].disks:
        waited.append(gain.at_client(machines, shape))
    return [wait.times(count) for wait in waited]


def test_a_tier_under_a_database_answers_for_the_slow_disks(tmp_path: Path) -> None:
    """Two runs without it count by seconds and by their mean requests; those of other threads or rates do not."""
    stage = stage_on(tmp_path, HDD, NVME)
    note(stage, "none", (20.0, 30.0), (3.0, 1.0))
    note(stage, "none", (10.0,), (1.0, 2.0))
    note(stage, "none", (0.0, 0.0), (99.0, 99.0))
    note(stage, "none", (500.0,), (77.0, 77.0), threads=1)
    note(stage, "tier", (40.0,), (55.0, 55.0))
    reads, writes = waits(stage, "randread", 2.0), waits(stage, "randwrite", 1.5)
    slow, fast = gain.in_turn([reads[1], writes[1]]), gain.in_turn([reads[2], writes[2]])
    made = gain.of_cache(slow, fast, 0.75, 3 / 60)
    wanted = told(made, "when 0.75 of 2 reads and 1.5 writes per transaction hit tier")
    assert of_database(stage, TIER, THREADS, HERE) == wanted


def test_a_disk_at_the_client_answers_for_the_cluster(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, HDD, client=(NVME,))
    note(stage, "none", (20.0, 30.0), (2.0, 2.0))
    note(stage, "writeback", (40.0,), (55.0, 55.0))
    reads, writes = waits(stage, "randread", 2.0), waits(stage, "randwrite", 2.0)
    slow, fast = gain.in_turn([reads[0], writes[0]]), gain.in_turn([reads[1], writes[1]])
    made = gain.of_cache(slow, fast, 0.75, 2 / 50)
    wanted = told(made, "when 0.75 of 2 reads and 2 writes per transaction hit writeback")
    assert of_database(stage, of_mode(DmCacheMode.WRITEBACK), THREADS, HERE) == wanted


@pytest.mark.parametrize("mode", [DmCacheMode.WRITETHROUGH, DmCacheMode.PASSTHROUGH])
def test_what_a_mode_does_not_keep_waits_as_before_and_bounds_its_gain(tmp_path: Path, mode: DmCacheMode) -> None:
    stage = stage_on(tmp_path, HDD, client=(NVME,))
    note(stage, "none", (20.0, 30.0), (2.0, 1.0))
    reads, writes = waits(stage, "randread", 2.0), waits(stage, "randwrite", 1.0)
    read = reads[1] if mode is DmCacheMode.WRITETHROUGH else reads[0]
    made = gain.of_cache(gain.in_turn([reads[0], writes[0]]), gain.in_turn([read, writes[0]]), 1.0, 2 / 50)
    wanted = told(made, f"when 1 of 2 reads and 1 writes per transaction hit {mode.value}")
    assert of_database(stage, of_mode(mode), THREADS, HERE) == replace(wanted, least=None, most=made.high)


def test_a_database_that_only_writes_has_nothing_to_read(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, HDD, client=(NVME,))
    note(stage, "none", (20.0, 30.0), (0.0, 1.0))
    [write, _] = waits(stage, "randwrite", 1.0)
    made = gain.of_cache(gain.in_turn([write]), gain.in_turn([write]), 1.0, 2 / 50)
    assert of_database(stage, of_mode(DmCacheMode.PASSTHROUGH), THREADS, HERE).most == made.high


def test_where_the_model_has_no_words_there_is_no_limit(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, HDD)
    note(stage, "none", (20.0,), (1.0, 1.0))
    wanted = Bound("no limit: no run recorded how many requests hit writeback", basis=Basis.NOTED)
    assert of_database(stage, of_mode(DmCacheMode.WRITEBACK), THREADS, HERE) == wanted
    said = "no limit: mine does not have two kinds of data disks"
    assert of_tier(stage, LOAD, 0.9, HERE) == Bound(said, basis=Basis.NOTED)


@pytest.mark.parametrize(("clients", "here"), [(6, HERE), (1, HERE), (1, replace(HERE, least=None))])
def test_several_clients_do_what_the_model_says_or_what_the_scenario_does(
    tmp_path: Path, clients: int, here: Bound
) -> None:
    stage = stage_on(tmp_path, NVME)
    demands, machines = parts(stage)
    alone, several = Shape("randread", 4096, 1, 1, 1), Shape("randread", 4096, clients, 1, 1)
    made = gain.of_growth(predict(demands, machines, alone), predict(demands, machines, several))
    assert (made.low > 1) is (clients > 1)
    wanted = told(made, f"{several}; as the paper has it")
    assert of_growth(stage, alone, several, here) == replace(wanted, least=max(made.low, here.least or 1.0))


def test_clients_that_the_model_has_no_words_for_keep_the_scenarios_limit(tmp_path: Path) -> None:
    limit = of_growth(stage_on(tmp_path, HDD), LOAD, replace(LOAD, replicas=99), HERE)
    assert limit.why.startswith("as the paper has it; the model has no limit: 99 copies cannot be placed")
    assert limit == replace(HERE, why=limit.why)
