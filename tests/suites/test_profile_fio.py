"""A load on a profile's machines by hand: fio's jobs, the pools and images, and what all of it adds up to."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import Energy, Scope, Source, energy_value, work_per_watt
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult
from cephlab.lab.workloads.image import PASSES, BlockImage
from cephlab.suites.bias import UNBIASED, Bias
from cephlab.suites.block.scale import scale
from cephlab.suites.block.stand import LEAST_OPERATIONS, UNCACHED, job, total
from cephlab.suites.profile import measured as measuring
from cephlab.suites.profile.measured import (
    FioLoad,
    Measured,
    Seen,
    at_the_plugs,
    data_pool,
    images,
    load_of,
    measure,
    shards_of,
    summed,
    unplugged,
)
from cephlab.tuning.requirements import Protection
from cephlab.tuning.units import Measure
from tests.fake_stage import stage_of
from tests.suites.test_profile_ways import OBJECT, judged
from tests.tuning.test_answers import load
from tests.tuning.test_answers_of_data import cluster as machines_of

RATE, MEAN, P99 = Interval(100.0, 90.0, 120.0, 9), Interval(0.01, 0.009, 0.011, 9), Interval(0.05, 0.04, 0.06, 2)
COPIES, CODE = Protection(3), Protection(k=2, m=1)
GIB = 1 << 30


def watts(node: str, value: float, scope: Scope = Scope.MACHINE, *trouble: str) -> Energy:
    return Energy(node, Source.BMC, scope, 60.0, 60.0 * value, trouble=trouble)


# Loads


@pytest.mark.parametrize(
    ("op", "pattern"),
    [
        *((op, "read") for op in ("read", "seq", "seqread")),
        *((op, "write") for op in ("write", "seqwrite")),
        ("randread", "randread"),
        ("randwrite", "randwrite"),
    ],
)
def test_an_operation_has_a_pattern(op: str, pattern: str) -> None:
    assert load_of(load(op=op, at_least="1 ops/s")) == FioLoad(pattern, {})


@pytest.mark.parametrize(
    ("mix", "wanted"),
    [
        ({"randread": 0.996, "randwrite": 0.004}, FioLoad("randrw", {"rwmixread": "100"})),
        ({"write": 0.4, "read": 0.6}, FioLoad("rw", {"rwmixread": "60"})),
        ({"randread": 0.5, "write": 0.5}, "fio cannot make randread and write on images"),
        ({"get": 0.5, "put": 0.5}, "fio cannot make get and put on images"),
    ],
)
def test_a_mix_has_a_pattern_with_its_share_of_reads_or_none(mix: dict[str, float], wanted: FioLoad | str) -> None:
    assert load_of(load(op="", mix=mix, at_least="1 ops/s")) == wanted


def test_what_fio_cannot_make_is_named() -> None:
    assert load_of(load(op="get", at_least="1 ops/s")) == "fio cannot make get on images"
    assert load_of(OBJECT) == "a requirement of kind objects is predicted only"


# What was measured


def test_what_is_not_given_is_empty() -> None:
    nothing = Measured(RATE, MEAN, None)
    assert (nothing.plug, nothing.unplugged, nothing.sentences) == ((), "", ())
    assert (Seen(None).sentences, Seen(None).why_not) == ((), "")


def test_each_prediction_is_compared_with_its_own_figure() -> None:
    plug = (watts("a", 150.0), watts("b", 50.0))
    done, wanted = Measured(RATE, MEAN, P99, plug), load(at_least="1 ops/s")
    assert done.of("99th percentile (predicted: the mean)", Measure.TIME, wanted) == P99
    assert done.of("mean latency", Measure.TIME, wanted) == MEAN
    assert done.of("throughput", Measure.OPS, wanted) == RATE
    in_bytes = done.of("throughput", Measure.RATE, wanted)
    assert in_bytes == Interval(100.0 * 4096, 90.0 * 4096, 120.0 * 4096, 9)
    each = work_per_watt(RATE, plug)
    assert (each.mean, each.samples) == (0.5, 9)
    assert done.of("work per watt", Measure.WORK, wanted) == each
    assert Measured(RATE, MEAN, P99).of("work per watt", Measure.WORK, wanted) is None


def test_what_lacks_says_why() -> None:
    done = Measured(RATE, MEAN, None, unplugged="no plug")
    assert done.lack("99th percentile (predicted: the mean)") == "none was reported"
    assert done.lack("work per watt") == "no plug"


def test_what_is_in_doubt_opens_the_interval_of_every_figure_and_is_said() -> None:
    done = Measured(RATE, MEAN, P99, unplugged="no plug", sentences=("Measured.",))
    doubted = done.biased(DOUBT)
    assert (doubted.rate, doubted.mean, doubted.p99) == (DOUBT.rate(RATE), DOUBT.latency(MEAN), DOUBT.latency(P99))
    assert (doubted.sentences, doubted.unplugged) == (("Measured.", *DOUBT.sentences), "no plug")
    assert (doubted.rate.high, doubted.rate.low, doubted.mean.low) == (float("inf"), 45.0, 0.0)
    assert Measured(RATE, MEAN, None).biased(DOUBT).p99 is None
    assert done.biased(UNBIASED) == done


@pytest.mark.parametrize(
    ("limit", "sound", "busy", "memory"),
    [
        ({"at_least": "50 ops/s"}, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE),
        ({"at_least": "200 ops/s"}, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL),
        ({"mean_at_most": "15 ms"}, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE),
        ({"mean_at_most": "5 ms"}, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL),
        ({"p99_at_most": "100 ms"}, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE),
        ({"p99_at_most": "10 ms"}, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL),
        ({"per_watt_at_least": "0.2 ops/s/W"}, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE),
        ({"per_watt_at_least": "2 ops/s/W"}, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL),
    ],
)
@pytest.mark.slow
def test_busy_clients_cannot_fail_a_requirement_and_memory_cannot_pass_it(
    limit: dict[str, str], sound: Outcome, busy: Outcome, memory: Outcome
) -> None:
    done, wanted = Measured(RATE, MEAN, P99, (watts("a", 150.0), watts("b", 50.0))), load(**limit)
    assert judged(wanted, done)[0] is sound
    outcome, _, shown = judged(wanted, done.biased(Bias("the clients were busy")))
    assert outcome is busy
    assert any(line.startswith("The clients were busy: the cluster may be faster") for line in shown["measuring"])
    assert judged(wanted, done.biased(Bias("", 1.0, "All")))[0] is memory


def side(iops: float, deviation: float, samples: int, mean_s: float, p99_s: float | None) -> Done:
    operations = int(iops * 10)
    return Done(operations, 0, 10.0, iops, mean_s, iops_stddev=deviation, iops_samples=samples, latency_p99_s=p99_s)


def test_all_generators_add_up_and_the_fewest_samples_count() -> None:
    """One reads and writes, with deviations of 3 and 4; the other only writes."""
    both = FioResult(side(100.0, 3.0, 20, 0.01, 0.02), side(300.0, 4.0, 12, 0.02, 0.08))
    writer = FioResult(NOTHING, side(200.0, 7.0, 15, 0.05, 0.05))
    sums = summed([both, writer])
    rate, mean = total([(400.0, 5.0, both.latency_mean_s), (200.0, 7.0, 0.05)], 12)
    # Floats are summed more exactly since Python 3.12.
    assert sums.p99 is not None
    assert sums.p99.mean == pytest.approx((0.02 + 0.08 + 0.05) / 3)
    assert sums == Measured(rate, mean, Interval(sums.p99.mean, 0.02, 0.08, 3))


def test_percentiles_that_fio_did_not_give_are_left_out_and_no_operation_has_no_rate() -> None:
    sums = summed([FioResult(side(100.0, 3.0, 20, 0.01, None), side(100.0, 3.0, 20, 0.01, 0.03))])
    assert sums.p99 == Interval(0.03, 0.03, 0.03, 1)
    assert summed([FioResult(side(100.0, 3.0, 20, 0.01, None), NOTHING)]).p99 is None
    rate, mean = total([(0.0, 0.0, 0.0)], 0)
    assert summed([FioResult(NOTHING, NOTHING)]) == Measured(rate, mean, None)


# Watts


def meter(*hosts: str, unread: tuple[str, ...] = (), energies: tuple[Energy, ...] = ()) -> Any:
    def of(window: object) -> tuple[Energy, ...]:
        assert window == (10.0, 70.0)
        return energies

    return SimpleNamespace(hosts=dict.fromkeys(hosts), unread=set(unread), energies=of)


@pytest.mark.parametrize(
    ("energies", "plug", "without"),
    [
        ((watts("a", 100.0), watts("b", 50.0)), (0, 1), ""),
        ((watts("a", 100.0), watts("b", 50.0, Scope.CPU)), (), "no source has the watts at the plug of b; x; y"),
        (
            (watts("b", 50.0, Scope.MACHINE, "stuck", "late"), watts("a", 100.0, Scope.CPU, "hot")),
            (),
            "no source has the watts at the plug of a, b; b by bmc: stuck; b by bmc: late; a by bmc: hot; x; y",
        ),
    ],
)
def test_watts_are_those_of_all_machines_or_none(
    energies: tuple[Energy, ...], plug: tuple[int, ...], without: str
) -> None:
    recorder = History().recorder("s")
    plugged = at_the_plugs(recorder, meter("b", "a", unread=("y", "x"), energies=energies), (10.0, 70.0))
    assert plugged == (tuple(energies[number] for number in plug), without)
    [event] = recorder.events()
    assert event.kind == "watts"
    assert event.data == {"energies": [energy_value(each) for each in energies], "unread": ["x", "y"]}


def test_watts_of_two_sources_do_not_add_up() -> None:
    other = Energy("b", Source.SENSORS, Scope.MACHINE, 60.0, 600.0)
    assert unplugged(meter("a", "b"), [watts("a", 1.0), other]) == "no single source has the watts of all"


# The run


def done_by(operations: int, errors: int) -> Done:
    return Done(operations, 0, 10.0, operations / 10, 0.1, errors)


RESULTS = [
    FioResult(NOTHING, done_by(150, 2)),
    FioResult(NOTHING, done_by(150, 3)),
    FioResult(done_by(90, 5), NOTHING),
]


DOUBT = Bias("the clients were busy", 0.5, "half of it may be read from memory")


def assert_jobs(jobs: Any, of: Stage, targets: Sequence[BlockImage], pattern: str, seconds: float) -> None:
    """fio mixes on each client's image, without a cache, and measures after a ramp of five seconds."""
    assert [node for node, _ in jobs] == ["client0", "client1"]
    for (_, each), target in zip(jobs, targets, strict=True):
        plain = job(of, target, pattern, 65_536, 7, rwmixread="70")
        ours = {"runtime_s": seconds, "options": UNCACHED, "more": {**plain.more, "ramp_time": "5"}}
        assert vars(each) == {**vars(plain), **ours}


def watching(looked: list[str], stage: Stage, reads: int) -> Any:
    """What `watched` is to be given, that its beginning and its end are in `looked`, and the bytes that are read."""

    def bias(*given: object) -> Bias:
        assert given == ("load generators", reads, 0.25)
        return DOUBT

    @contextmanager
    def watched(of: Stage, jobs: Any, *, judged: bool) -> Iterator[Any]:
        assert (of, [node for node, _ in jobs], judged) == (stage, ["client0", "client1"], True)
        looked.append("watch")
        yield SimpleNamespace(bias=bias)
        looked.append("watched")

    return watched


@pytest.mark.parametrize("tier", [Tier.QUICK, Tier.FULL])
@pytest.mark.parametrize("plugged", [True, False])
@pytest.mark.parametrize("pattern", ["randrw", "randwrite", "write"])
def test_all_generators_run_at_once_on_images_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tier: Tier, plugged: bool, pattern: str
) -> None:
    """The run begins at 100 s and ends at 140; watts count after a ramp of five seconds."""
    cluster = SimpleNamespace(client_name="client.x")
    stage, twin = (replace(stage_of(cluster), tier=tier) for _ in range(2))
    wanted = load(clients=2, depth=7, bs="64k", at_least="1 ops/s", hit_ratio=0.25)
    on, by = machines_of(4), FioLoad(pattern, {"rwmixread": "70"})
    size_bytes = scale(on).image_bytes(4 * GIB, 2)
    targets = [BlockImage("wanted", f"image{number}", 1 << 22) for number in range(2)]
    looked: list[str] = []

    @contextmanager
    def made(*given: object) -> Iterator[list[BlockImage]]:
        assert given == (cluster, wanted.protection, 2, size_bytes)
        yield targets

    @contextmanager
    def looking() -> Iterator[None]:
        looked.append("begin")
        yield
        looked.append("end")

    def run_jobs(where: object, jobs: Any) -> list[FioResult]:
        assert where is cluster
        assert looked == ["begin", "watch"]
        looked.append("run")
        assert_jobs(jobs, twin, targets, pattern, 30.0 if tier is Tier.QUICK else 120.0)
        return RESULTS

    def meter_of(*given: object) -> Any:
        assert given == (cluster, "bmcs")
        return SimpleNamespace(looking=looking)

    def plugs(*given: Any) -> Any:
        assert (given[0], given[2]) == (stage.recorder, (105.0, 140.0))
        assert given[1].looking is looking
        return ((watts("a", 100.0),), "") if plugged else ((), "no plug")

    times = iter([100.0, 140.0])
    monkeypatch.setattr(measuring, "images", made)
    monkeypatch.setattr(measuring, "client_node", lambda where, number: f"client{number}" if where is cluster else "")
    monkeypatch.setattr(measuring, "named_bmcs", lambda: "bmcs")
    monkeypatch.setattr(measuring, "meter_of", meter_of)
    monkeypatch.setattr(measuring, "run_jobs", run_jobs)
    monkeypatch.setattr(measuring, "watched", watching(looked, stage, 2 * size_bytes if pattern == "randrw" else 0))
    monkeypatch.setattr(measuring, "at_the_plugs", plugs)
    monkeypatch.setattr(measuring, "time", SimpleNamespace(time=lambda: next(times)))
    measured = measure(stage, wanted, by, on)
    monkeypatch.undo()
    assert looked == ["begin", "watch", "run", "watched", "end"]
    plug = (watts("a", 100.0),) if plugged else ()
    assert measured == replace(summed(RESULTS), plug=plug, unplugged="" if plugged else "no plug").biased(DOUBT)
    errors, witness = stage.recorder.events()
    assert (errors.data["what"], errors.data["got"], errors.data["wanted"]) == ("errors of fio", 10, 0)
    assert (witness.data["got"], witness.data["least"]) == (90, LEAST_OPERATIONS)


# Pools and images


def pools_made(monkeypatch: pytest.MonkeyPatch, cluster: object) -> list[tuple[object, ...]]:
    """What pools and images are made, in order; each pool is known by its name."""
    did: list[tuple[object, ...]] = []

    @contextmanager
    def pool(where: object, name: str, kind: PoolKind, *, pg_num: int) -> Iterator[str]:
        assert where is cluster
        did.append(("pool", name, kind, pg_num))
        yield name
        did.append(("delete", name))

    def write_all(where: object, targets: object, *more: str, passes: int) -> None:
        assert where is cluster
        did.append(("write", targets, more, passes))

    monkeypatch.setattr(pools, "pool", pool)
    monkeypatch.setattr(measuring, "write_all", write_all)
    return did


@pytest.mark.parametrize(
    ("osds", "protection", "name", "kind", "pg_num"),
    [
        (12, COPIES, "wanted", PoolKind("data", 3), 512),  # 400 would be a hundred of each OSD
        (12, CODE, "wanted-data", PoolKind("data", 3, 2, 1), 512),
        (4, Protection(2), "wanted", PoolKind("data", 2), 256),  # 200
        (0, COPIES, "wanted", PoolKind("data", 3), 32),  # an OSD is counted where none is known yet
        (1, Protection(k=16, m=8), "wanted-data", PoolKind("data", 24, 16, 8), 8),
        (9, Protection(5), "wanted", PoolKind("data", 5), 128),  # 180: with one more on each OSD 256 would be nearer
    ],
)
def test_a_pool_has_about_a_hundred_pgs_on_each_osd(
    monkeypatch: pytest.MonkeyPatch, osds: int, protection: Protection, name: str, kind: PoolKind, pg_num: int
) -> None:
    cluster: Any = SimpleNamespace(osd_ids=lambda: list(range(osds)))
    did = pools_made(monkeypatch, cluster)
    with data_pool(cluster, protection) as made:
        assert made == name
    assert did == [("pool", name, kind, pg_num), ("delete", name)]


def test_a_shard_is_a_copy_or_a_chunk() -> None:
    assert (shards_of(COPIES), shards_of(CODE), shards_of(Protection(k=4, m=2))) == (3, 3, 6)


@pytest.mark.parametrize(
    ("protection", "heads"), [(COPIES, None), (CODE, 3), (Protection(k=4, m=2), 3), (Protection(k=1, m=1), 2)]
)
def test_images_of_an_erasure_code_have_their_heads_in_a_pool_of_copies(
    monkeypatch: pytest.MonkeyPatch, protection: Protection, heads: int | None
) -> None:
    cluster: Any = SimpleNamespace(osd_ids=lambda: [0, 1, 2])
    did = pools_made(monkeypatch, cluster)
    with images(cluster, protection, 2, 1 << 22, "--object-size", "4M") as made:
        assert made == [BlockImage("wanted", "image0", 1 << 22), BlockImage("wanted", "image1", 1 << 22)]
        number = len(did)
    more = ("--object-size", "4M", *(("--data-pool", "wanted-data") if heads else ()))
    assert did[number - 1] == ("write", made, more, PASSES)
    small = [("pool", "wanted", PoolKind("replicated", heads), 8)] if heads else []
    assert did[1 : number - 1] == small
    assert did[number:] == ([("delete", "wanted"), ("delete", "wanted-data")] if heads else [("delete", "wanted")])
    with images(cluster, protection, 1, 1 << 22, passes=1):
        assert did[-1][-1] == 1


def test_a_meter_is_asked_for_its_own_hosts() -> None:
    said = unplugged(cast("Any", meter("c", "b", "a")), [watts("b", 1.0)])
    assert said == "no source has the watts at the plug of a, c"
