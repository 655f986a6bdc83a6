"""Loads of objects where the machines are: which clients make them, what they add up to, and what may decide."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.watts import WattMeter
from cephlab.lab.workloads.fiolatency import Window
from cephlab.lab.workloads.s3_load_program import CLEAN, EXIST, FILL, RUN
from cephlab.lab.workloads.s3fleet import Fleet
from cephlab.lab.workloads.s3load import Over, S3Operation, S3Result
from cephlab.suites import bias as biased
from cephlab.suites.bias import Bias
from cephlab.suites.profile import objects
from cephlab.suites.profile.measured import Measured
from cephlab.suites.profile.objects import NOTHING, clients_of, measure_objects, summed, unmade
from cephlab.suites.profile.ways import Way, way_of
from cephlab.tuning.requirements import Protection
from tests.fake_stage import stage_of
from tests.suites.test_profile_ways import judged
from tests.tuning.test_requirements import ALTRA, find, load

BEGAN_S = 1_700_000_000.0
POOL = {"pool_name": "data", "size": 2, "erasure_code_profile": ""}
CODED = {"pool_name": "data", "size": 6, "erasure_code_profile": "ec42"}


def gets(**given: Any) -> Any:
    return load(**{"op": "get", "clients": 2, "depth": 6, "at_least": "1 ops/s", **given})


@pytest.mark.parametrize(
    "given",
    [*({"op": op} for op in ("get", "put", "list", "delete")), {"op": "", "mix": {"get": 0.7, "put": 0.3}}],
)
def test_loads_of_objects_are_measured(given: dict[str, Any]) -> None:
    way = way_of(gets(**given))
    assert isinstance(way, Way)
    assert "S3" in way.method


def test_a_mix_that_uses_up_objects_is_predicted() -> None:
    requirement = gets(op="", mix={"put": 0.5, "delete": 0.5})
    assert way_of(requirement) == unmade(requirement)
    assert "put and delete" in unmade(requirement)


# Who makes the load


class Host:
    emulated = False

    def __init__(self, name: str, cpus: int = 8) -> None:
        self.name, self.cpus = name, cpus

    def run(self, argv: Sequence[str]) -> Any:
        return SimpleNamespace(stdout=f"{self.cpus if argv[0] == 'nproc' else BEGAN_S}\n")


class Mon:
    """Pools as they are before the filling and after it."""

    def __init__(self, pool: Mapping[str, Any], grown: float, memory: float) -> None:
        self.pool, self.stored, self.memory = pool, [0.0, grown], memory

    def tell(self, _osd: str, command: str) -> Any:
        assert command == "perf dump"
        return {"bluestore-pricache": {"target_bytes": self.memory}}

    def mon(self, command: str, **_: Any) -> Any:
        if command == "df":
            now = self.stored.pop(0) if len(self.stored) > 1 else self.stored[0]
            pools = {"data": now, "index": now / 10, "old": 1e12}
            return {"pools": [{"name": name, "stats": {"stored": held}} for name, held in pools.items()]}
        return {"k": "4", "m": "2"} if command.startswith("osd erasure") else {"pools": [self.pool]}


def cluster_of(pool: Mapping[str, Any] = POOL, grown: float = 2e6, cpus: int = 8, memory: float = 4e9) -> Any:
    hosts = {name: Host(name, cpus) for name in ("client0", "client1")}
    return SimpleNamespace(client=Mon(pool, grown, memory), hosts=hosts, patience=0.001, osd_ids=lambda: [0, 1])


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "client_node", lambda _cluster, number: f"client{number % 2}")


def test_each_generators_requests_are_spread_over_processes_on_its_machine() -> None:
    made = clients_of(stage_of(cluster_of()), find(ALTRA), gets(bs="64k"))
    assert [(client.host.name, client.load.workers) for client in made] == [
        ("client0", 4),
        ("client0", 2),
        ("client1", 4),
        ("client1", 2),
    ]
    assert [client.load.bucket for client in made] == [f"wanted-s3-{number}-" for number in range(4)]
    assert len({client.load.seed for client in made}) == 4
    assert all(client.load.own_buckets and client.load.sizes == ((65_536, 65_536, 1.0),) for client in made)


def test_a_run_ends_before_it_has_written_too_much_and_deletes_each_object_once() -> None:
    stage, profile = stage_of(cluster_of()), find(ALTRA)
    [put, *_] = clients_of(stage, profile, gets(op="put", bs="4M"))
    share = 0.05 * sum(machine.count * machine.weight for machine in profile.nodes)
    new = put.load.operations
    assert 0.9 * share < 4 * new * (4 << 20) * 2 <= share or new == objects.NEW_OBJECTS[Tier.QUICK]
    assert put.load.over["put"] == Over(objects=((put.load.objects - new + 1, put.load.objects, 1.0),), in_order=True)
    assert put.load.over[FILL] == put.load.over["get"] == Over(objects=((1, put.load.objects - new, 1.0),))
    [huge, *_] = clients_of(stage, profile, gets(op="put", bs="400M"))
    assert 0.8 * share < 4 * huge.load.operations * (400 << 20) * 2 <= share
    [mixed, *_] = clients_of(stage, profile, gets(op="", mix={"get": 0.5, "put": 0.5}, bs="4k"))
    assert mixed.load.operations == 2 * objects.NEW_OBJECTS[Tier.QUICK]
    [deleted, *_] = clients_of(stage, profile, gets(op="delete"))
    assert deleted.load.operations == deleted.load.objects == 1000
    assert deleted.load.over == {"delete": Over(in_order=True)}
    [listed, *_] = clients_of(stage, profile, gets(op="list"))
    assert listed.load.objects == listed.load.page == 1000


# What they add up to


def client(*counts: int, mean_s: float = 0.01, p99_s: float = 0.05, busy: float = 0.5) -> S3Result:
    """Windows of a second; those without an operation are left out, as a client leaves them out."""
    windows = tuple(
        Window(BEGAN_S + at_s, BEGAN_S + at_s + 1, count, mean_s=mean_s, p99_s=p99_s)
        for at_s, count in enumerate(counts)
        if count
    )
    return S3Result((), (), 0, float(len(counts)), busy * len(counts), windows)


def fleet(*results: S3Result) -> Fleet:
    named = {f"client{number}": result for number, result in enumerate(results)}
    return Fleet(named, {}, dict.fromkeys(named, 0.0), dict.fromkeys(named, 0.0))


def test_rates_add_up_without_the_ramp_and_the_last_window() -> None:
    done = summed(fleet(client(1, 1, *[100, 102] * 6, 3), client(1, 1, *[300] * 12, 3, mean_s=0.03, p99_s=0.2)))
    assert done.rate.mean == pytest.approx(401)
    assert done.rate.low < 401 < done.rate.high < 403
    assert done.operations == 12 * 401
    assert done.mean.mean == pytest.approx(((12 * 101 + 3) * 0.01 + (12 * 300 + 3) * 0.03) / (12 * 401 + 6))
    assert done.p99 is not None
    assert (done.p99.low, done.p99.high) == (0.05, 0.2)
    assert (done.first_s, done.last_s) == (BEGAN_S + 2, BEGAN_S + 14)


def test_what_waits_until_the_end_counts_as_slow() -> None:
    """For ten seconds nothing is answered; then comes what had waited, in the window that the end cuts short."""
    quick, late = client(*[100] * 14), Window(BEGAN_S + 24, BEGAN_S + 25, 4, mean_s=10.0, p99_s=10.2)
    stalled = replace(quick, windows=(*quick.windows, late))
    done = summed(fleet(stalled, replace(stalled)))
    assert done.p99 is not None
    assert (done.p99.low, done.p99.high) == (0.05, 10.2)
    assert done.mean.mean > 2 * 0.01
    assert done.rate.mean == pytest.approx(200 * 10 / 20)
    beside_one = summed(fleet(stalled, client(*[100] * 20)))
    assert beside_one.p99 is not None
    assert beside_one.p99.high == 10.2


def test_a_second_without_an_operation_counts_as_none() -> None:
    assert summed(fleet(client(9, 9, *[10, 0] * 6, 10, 9))).rate.mean == pytest.approx(70 / 13)


@pytest.mark.parametrize("counts", [(), (100,), (100, 100)])
def test_a_client_without_a_steady_time_shows_nothing(counts: Sequence[int]) -> None:
    assert summed(fleet(client(*[100] * 14), client(*counts))) == NOTHING


def test_only_the_time_counts_in_which_all_clients_worked() -> None:
    """The second client had written all that it may after six seconds; the first was twice as fast from then on."""
    done = summed(fleet(client(*[100] * 8, *[200] * 8), client(*[100] * 7)))
    assert done.rate.mean == pytest.approx(200)
    assert (done.first_s, done.last_s) == (BEGAN_S + 2, BEGAN_S + 6)


def measured(rate: float) -> Measured:
    near = Interval(rate, rate * 0.99, rate * 1.01, 30)
    return Measured(near, Interval(0.01, 0.0099, 0.0101, 30), Interval(0.05, 0.04, 0.06, 30))


@pytest.mark.parametrize(
    ("limit", "free", "bound"),
    [
        ({"at_least": "900 ops/s"}, Outcome.PASS, Outcome.PASS),
        ({"at_least": "2000 ops/s"}, Outcome.FAIL, Outcome.INCONCLUSIVE),
        ({"at_least": "2 GB/s"}, Outcome.FAIL, Outcome.INCONCLUSIVE),
        ({"at_least": None, "mean_at_most": "20 ms"}, Outcome.PASS, Outcome.PASS),
        ({"at_least": None, "mean_at_most": "5 ms"}, Outcome.FAIL, Outcome.INCONCLUSIVE),
        ({"at_least": None, "p99_at_most": "20 ms"}, Outcome.FAIL, Outcome.INCONCLUSIVE),
    ],
)
@pytest.mark.slow
def test_busy_clients_can_pass_a_cluster_and_cannot_fail_it(
    limit: dict[str, Any], free: Outcome, bound: Outcome
) -> None:
    requirement = gets(bs="64k", **limit)
    assert judged(requirement, measured(1000))[0] is free
    assert judged(requirement, measured(1000).biased(Bias("one was busy")))[0] is bound
    kept = Outcome.FAIL if free is Outcome.FAIL else Outcome.INCONCLUSIVE
    assert judged(requirement, measured(1000).biased(Bias(hits=1.0, memory="all")))[0] is kept


# The whole


def filling(bytes_: int) -> S3Result:
    put = S3Operation(FILL, "put", 0, "/b/o", 1, bytes_, 0.0, 0.0, 1.0, False, "")
    return S3Result((put,), (), 0, 1.0, 0.1)


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every phase that ran, and the clean-up, with the number of its clients."""
    ran: list[tuple[str, int]] = []

    @contextmanager
    def entrances(_cluster: Cluster, buckets: Sequence[str]) -> Iterator[list[str]]:
        assert buckets == [f"wanted-s3-{number}-0" for number in range(len(buckets))]
        yield ["door"]

    def together(_cluster: Cluster, clients: Sequence[Any], _doors: Sequence[Any], phase: str) -> Fleet:
        ran.append((phase, len(clients)))
        result = filling(500_000) if phase == FILL else client(*[250] * 14)
        return fleet(*[result] * len(clients))

    @contextmanager
    def new_buckets(_: Cluster, loads: Sequence[Any], _doors: object, *, timeout_s: float) -> Iterator[set[str]]:
        foreign: set[str] = set()
        try:
            yield foreign
        finally:
            assert timeout_s > 0
            ran.append((CLEAN, sum(load.bucket not in foreign for _, load in loads)))

    monkeypatch.setattr(objects, "new_buckets", new_buckets)
    monkeypatch.setattr(objects, "entrances", entrances)
    monkeypatch.setattr(objects, "together", together)
    monkeypatch.setattr(objects, "meter_of", lambda _cluster, _bmcs: WattMeter({}, unread={"client0: no ipmitool"}))
    return ran


def run(cluster: Any, **given: Any) -> Any:
    stage = stage_of(cluster)
    measured = measure_objects(stage, gets(protection="replicated:2", **given), find(ALTRA))
    return measured, {event.kind: event.data for event in stage.recorder.events()}


def test_all_clients_fill_run_and_clean(phases: list[tuple[str, int]]) -> None:
    measured, _ = run(cluster_of(), hit_ratio=1.0)
    assert phases == [(FILL, 4), (RUN, 4), (CLEAN, 4)]
    assert measured.rate.mean == pytest.approx(1000)
    assert measured.sentences[0] == (
        "Measured with 4 S3 clients on 2 machines through 1 endpoint; the objects are in the pool 'data'."
    )
    assert len(measured.sentences) == 2
    assert measured.unplugged


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (cluster_of(CODED), "store objects in pool 'data' with ec:4+2, not with replicated:2"),
        (cluster_of({**POOL, "size": 3}), "with replicated:3, not with replicated:2"),
        (cluster_of(grown=900_000.0), "in no pool that grew by what was put"),
    ],
)
def test_other_protection_leaves_the_prediction_to_decide_and_no_bucket(
    phases: list[tuple[str, int]], cluster: Any, said: str
) -> None:
    reason, _ = run(cluster)
    assert said in reason
    assert phases == [(FILL, 4), (CLEAN, 4)]


def test_the_protection_of_a_code_is_read(phases: list[tuple[str, int]]) -> None:
    assert objects.protection_of(cluster_of(CODED), "data") == Protection(k=4, m=2)
    assert phases == []


def test_busy_machines_are_named(phases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    measured, _ = run(cluster_of(cpus=1))
    assert measured.rate.high == float("inf")
    assert measured.sentences[2].startswith(
        "More than half of the CPU time of client0, client1 was used: the cluster may be"
    )
    monkeypatch.setattr(objects, "FULL_CPU", 0.4)
    assert run(cluster_of())[0].sentences[2].startswith("4 clients of 4 used more than half a CPU")
    monkeypatch.setattr(biased, "FULL_CPU", 0.1)
    assert run(cluster_of())[0].sentences[2].startswith("More than half of the CPU time of client0, client1 was used")
    assert phases[-1] == (CLEAN, 4)


def test_a_bucket_that_somebody_made_meanwhile_stops_it_and_is_not_removed(
    phases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = objects.together

    def together(cluster: Cluster, clients: Sequence[Any], doors: Sequence[Any], phase: str) -> Fleet:
        done = plain(cluster, clients, doors, phase)
        if phase != FILL:
            return done
        return Fleet({}, {"client0 wanted-s3-1-": f"{EXIST}: wanted-s3-1-0"}, done.ahead_s, done.late_s)

    monkeypatch.setattr(objects, "together", together)
    with pytest.raises(LabBroken, match="1 S3 client could not fill a bucket") as stopped:
        run(cluster_of())
    assert "wanted-s3-1-0" in stopped.value.detail
    assert phases == [(FILL, 4), (CLEAN, 3)]


def test_an_interrupted_fill_leaves_no_bucket(phases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(objects, "together", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(cluster_of())
    assert phases == [(CLEAN, 4)]


def test_a_fill_that_fails_is_no_load_and_its_bucket_is_removed(
    phases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = S3Operation(FILL, "put", 0, "/b/o", 1, 0, 0.0, 0.0, 1.0, False, "QuotaExceeded")
    monkeypatch.setitem(globals(), "filling", lambda _bytes: S3Result((refused,), (), 0, 1.0, 0.1))
    with pytest.raises(LabBroken, match="4 S3 clients could not fill a bucket") as stopped:
        run(cluster_of())
    assert "QuotaExceeded" in stopped.value.detail
    assert phases == [(FILL, 4), (CLEAN, 4)]


def test_emulated_clients_cannot_fail_a_cluster(phases: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "emulated", True)
    measured, _ = run(cluster_of())
    assert measured.rate.high == float("inf")
    assert measured.sentences[2].startswith("The clients on client0, client1 are emulated: the cluster may be faster")
    assert phases[-1] == (CLEAN, 4)


def test_reads_from_memory_cannot_pass_disks(phases: list[tuple[str, int]]) -> None:
    measured, _ = run(cluster_of())
    assert (measured.rate.low, measured.mean.high, measured.p99.high) == (0.0, float("inf"), float("inf"))
    assert measured.sentences[-1].startswith("Up to 1 of the reads may come from the memory of the OSDs")
    half = run(cluster_of(memory=500_000.0))[0]
    assert half.rate.low == pytest.approx(run(cluster_of(), hit_ratio=1.0)[0].rate.low / 2)
    assert run(cluster_of(), hit_ratio=1.0)[0].rate.low > 0
    assert run(cluster_of(), op="put")[0].rate.low > 0
    assert phases[-1] == (CLEAN, 4)


def test_wrong_answers_and_errors_are_observed_and_a_lost_client_is_the_labs_trouble() -> None:
    stage = stage_of(cluster_of())
    failed = S3Operation(RUN, "get", 0, "/b/o", 1, 0, 0.0, 0.0, 1.0, False, "SlowDown")
    bad = S3Result((failed,), ("get of /b/o: 3 bytes",), 1, 1.0, 0.1, client(*[250] * 14).windows)
    objects.trust(stage, Fleet({"c0": bad}, {}, {}, {}))
    seen = {event.data["what"]: event.data["got"] for event in stage.recorder.events() if event.kind == "observation"}
    assert seen == {"wrong answers": ["get of /b/o: 3 bytes"], "errors": {"SlowDown": 1}}
    with pytest.raises(LabBroken, match="1 S3 client was lost"):
        objects.trust(stage, Fleet({"c0": bad}, {"c1": "killed"}, {}, {}))
