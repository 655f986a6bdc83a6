"""S3 clients of a load of objects, one by one: what each is told and given, and what is recorded of them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.history.history import Event
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import Energy, Scope, Source
from cephlab.lab.workloads.s3_load_program import CLEAN, FILL, RUN
from cephlab.lab.workloads.s3fleet import Fleet
from cephlab.lab.workloads.s3load import Over, S3Load, S3Result, constant
from cephlab.suites.block.scale import scale
from cephlab.suites.block.stand import LEAST_OPERATIONS
from cephlab.suites.profile import objects
from cephlab.suites.profile.measured import IMAGE_BYTES
from cephlab.suites.profile.objects import NOTHING, Summed, clients_of, grown, measure_objects, summed, trust
from cephlab.tuning.requirements import Protection
from tests.fake_stage import stage_of
from tests.suites.test_profile_objects import BEGAN_S, CODED, client, cluster_of, filling, fleet, gets
from tests.tuning.test_requirements import ALTRA, find

GIB = 1 << 30


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "client_node", lambda cluster, number: f"client{number % len(cluster.hosts)}")


def loads(tier: Tier = Tier.QUICK, **given: Any) -> list[S3Load]:
    stage = replace(stage_of(cluster_of()), tier=tier)
    return [each.load for each in clients_of(stage, find(ALTRA), gets(**given))]


# What each is told


@pytest.mark.parametrize(
    ("given", "tier", "wanted"),
    [
        ({"bs": "64k"}, Tier.QUICK, {"objects": 1000, "operations": 0, "over": {}}),
        ({"bs": "64k"}, Tier.FULL, {"objects": 10_000, "operations": 0, "over": {}}),
        ({"op": "list"}, Tier.FULL, {"objects": 1000, "operations": 0, "over": {}}),
        ({"op": "delete"}, Tier.QUICK, {"objects": 1000, "operations": 1000, "over": {"delete": Over(in_order=True)}}),
    ],
)
def test_a_client_is_told_its_objects_its_time_and_its_windows(
    given: dict[str, Any], tier: Tier, wanted: dict[str, Any]
) -> None:
    [first, *_] = loads(tier, **given)
    size, op = 65_536 if "bs" in given else 4096, given.get("op", "get")
    runtime_s = 35.0 if tier is Tier.QUICK else 125.0
    same: dict[str, Any] = {
        "mix": {op: 1.0},
        "sizes": constant(size),
        "page": 1000,
        "window_s": 1.0,
        "own_buckets": True,
    }
    told = S3Load(bucket="wanted-s3-0-", workers=4, seed=first.seed, runtime_s=runtime_s, **same, **wanted)
    assert first == told


@pytest.mark.parametrize(("guard", "copies"), [("replicated:2", 2.0), ("ec:2+1", 1.5)])
def test_objects_take_a_twentieth_of_the_disks_at_most_and_4_gib_for_each_client(guard: str, copies: float) -> None:
    """Of 64 MiB each, 4 GiB hold 64. So much for 4 processes is less than a twentieth of these disks."""
    [first, *_] = loads(Tier.FULL, bs="64M", protection=guard)
    assert first.objects == scale(find(ALTRA)).image_bytes(IMAGE_BYTES, 4, copies) // (64 << 20) == 64
    [odd, *_] = loads(bs="48M", protection=guard)
    assert (odd.objects, type(odd.objects)) == (85, int)
    [huge, *_] = loads(bs="1024M", protection=guard)
    assert huge.objects == 8
    [put, *_] = loads(Tier.FULL, op="put", bs="600M", protection=guard)
    room = scale(find(ALTRA)).image_bytes(1 << 60, 4, copies) // (600 << 20)
    assert put.operations == room
    assert put.objects - room == 8


@pytest.mark.parametrize(("tier", "new"), [(Tier.QUICK, 40_000), (Tier.FULL, 120_000)])
def test_new_objects_are_so_many_at_most(tier: Tier, new: int) -> None:
    [put, *_] = loads(tier, op="put", bs="4k")
    assert put.operations == new


def test_every_client_has_a_seed_of_31_bits() -> None:
    stage = replace(stage_of(cluster_of()), rng=SimpleNamespace(randrange=lambda stop: stop))  # type: ignore[arg-type]
    assert {each.load.seed for each in clients_of(stage, find(ALTRA), gets())} == {1 << 31}


def test_many_processes_share_the_disks() -> None:
    """With 4000 processes a twentieth of the disks is less than 4 GiB for each."""
    many = loads(Tier.FULL, bs="1M", clients=1000, depth=16)
    assert len(many) == 4000
    assert many[0].objects == scale(find(ALTRA)).image_bytes(IMAGE_BYTES, 4000, 2.0) // (1 << 20) < 4096


# What is given to them


def test_every_phase_is_given_to_all_clients_with_time_to_begin_together(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, given = cluster_of(), []
    cluster.patience = 3.0
    clients = clients_of(stage_of(cluster), find(ALTRA), gets())
    monkeypatch.setattr(objects, "run_together", lambda *words, **more: given.append((words, more)))
    objects.together(cluster, clients, ["door"], CLEAN)  # type: ignore[list-item]
    [((fleet_loads, doors), more)] = given
    assert fleet_loads == [(each.host, replace(each.load, phases=(CLEAN,))) for each in clients]
    assert (doors, more) == (["door"], {"lead_s": pytest.approx(1.2), "timeout_s": 3.0 * 1835.0})
    objects.together(cluster, clients[:1], [], RUN)
    assert given[1][1]["timeout_s"] == 3.0 * 1835.0


class Phases:
    """Answers of all clients by phase."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.run = cluster, client(*[250] * 14)

    def __call__(self, cluster: Any, clients: Sequence[Any], doors: Sequence[Any], phase: str) -> Fleet:
        assert (cluster, doors) == (self.cluster, ["door"])
        return fleet(*[filling(500_000) if phase == FILL else self.run] * len(clients))


def measured(monkeypatch: pytest.MonkeyPatch, cluster: Any) -> tuple[Any, Sequence[Event]]:
    """What a run of gets finds whose machines' clocks are an hour ahead, and all events."""
    plug = (Energy("n0", Source.BMC, Scope.MACHINE, 60.0, 6000.0),)
    meter = SimpleNamespace(looking=lambda: Opened(None))

    def plugs(recorder: Any, by: Any, window: tuple[float, float]) -> Any:
        assert (recorder, by, window) == (stage.recorder, meter, (BEGAN_S - 3600 + 2, BEGAN_S - 3600 + 13))
        return plug, "not all"

    def entrances(of: Any, _buckets: Sequence[str]) -> Any:
        assert of is cluster
        return Opened(["door"])

    stage = stage_of(cluster)
    monkeypatch.setattr(objects, "together", Phases(cluster))
    monkeypatch.setattr(objects, "new_buckets", lambda *_, **__: Opened(set[str]()))
    monkeypatch.setattr(objects, "entrances", entrances)
    monkeypatch.setattr(objects, "named_bmcs", lambda: "bmcs")
    monkeypatch.setattr(objects, "meter_of", lambda *given: meter if given == (cluster, "bmcs") else None)
    monkeypatch.setattr(objects, "at_the_plugs", plugs)
    monkeypatch.setattr(objects, "now_s", lambda host: 3700.0 if host is cluster.hosts["client0"] else math.nan)
    monkeypatch.setattr(objects, "time", SimpleNamespace(time=lambda: 100.0))
    measured: Any = measure_objects(stage, gets(protection="replicated:2", clients=4, depth=4), find(ALTRA))
    assert (measured.plug, measured.unplugged) == (plug, "not all")
    return measured, stage.recorder.events()


class Opened:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""


def test_a_run_is_witnessed_and_watts_are_those_of_its_time_by_this_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    _, events = measured(monkeypatch, cluster_of())
    seen = {event.data.get("what") or event.data.get("metric") or event.kind: event.data for event in events}
    assert (seen["operations in the measured time"]["got"], seen["operations in the measured time"]["least"]) == (
        4 * 250 * 11,
        LEAST_OPERATIONS,
    )
    assert seen["wrong answers"]["of"] == seen["errors"]["of"] == 4 * 250 * 14
    assert seen["S3 clients: busiest client, share of one CPU"]["value"] == 0.5
    assert seen["S3 clients: busiest client machine, share of its CPUs"]["value"] == 1.0 / 8
    names = [f"client{number}" for number in range(4)]
    told = {"operations": dict.fromkeys(names, 3500), "client_busy": dict.fromkeys(names, 0.5)}
    assert {key: seen["s3_clients"][key] for key in told} == told


def test_an_error_names_every_client_that_failed() -> None:
    broken = objects.broken("was lost", {"c0": "killed", "c1": "gone"}, "look")
    assert (broken.what, broken.detail, broken.hint) == ("2 S3 clients was lost", "c0: killed\nc1: gone", "look")


def test_how_busy_clients_are_is_recorded_to_a_thousandth() -> None:
    stage = stage_of(cluster_of())
    trust(stage, fleet(client(5, 5, busy=0.12345)))
    [told, wrong, errors] = stage.recorder.events()
    assert (told.kind, told.data) == ("s3_clients", {"operations": {"client0": 10}, "client_busy": {"client0": 0.123}})
    assert (wrong.data["wanted"], wrong.data["of"], errors.data["wanted"], errors.data["of"]) == ([], 10, {}, 10)


# What is read of the cluster


@pytest.mark.parametrize(
    ("grew", "put", "pool"), [(500.0, 1000.0, "data"), (499.0, 1000.0, ""), (1.0, 0.0, "data"), (0.9, 0.0, "")]
)
def test_the_pool_of_the_objects_grew_by_half_of_what_was_put_at_least(grew: float, put: float, pool: str) -> None:
    """A pool that was not there before counts whole. The other pools do not grow."""
    stats = [{"name": "data", "stats": {"stored": grew}}, {"name": "old", "stats": {"stored": 7.0}}]
    cluster: Any = SimpleNamespace(client=SimpleNamespace(mon=lambda _: {"pools": stats}), patience=0.0)
    assert grown(cluster, {"old": 7.0}, put) == pool


def test_statistics_are_asked_for_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(Deadline, "pause", lambda _deadline, seconds: paused.append(seconds))
    cluster = cluster_of()
    cluster.client.stored, cluster.patience = [0.0, 0.0, 1e6], 1.0
    assert grown(cluster, {"old": 1e12}, 1e6) == "data"
    assert paused == [1.0, 1.0]


def test_statistics_may_be_a_minute_old(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    made = Deadline.after(9.0)

    def after(seconds: float) -> Deadline:
        asked.append(seconds)
        return made

    monkeypatch.setattr(Deadline, "after", after)
    assert grown(cluster_of(), {"old": 1e12}, 1e6) == "data"
    assert asked == [0.06]


def test_the_profile_of_a_code_is_asked_for_by_its_name() -> None:
    def mon(command: str, **given: Any) -> Any:
        if command == "osd dump":
            return {"pools": [CODED]}
        assert (command, given) == ("osd erasure-code-profile get", {"name": "ec42"})
        return {"k": "4", "m": "2"}

    cluster: Any = SimpleNamespace(client=SimpleNamespace(mon=mon))
    assert objects.protection_of(cluster, "data") == Protection(k=4, m=2)


# The time in which all worked


def shifted(result: S3Result, by_s: float) -> S3Result:
    windows = [replace(each, began_s=each.began_s + by_s, ended_s=each.ended_s + by_s) for each in result.windows]
    return replace(result, windows=tuple(windows))


def test_a_window_belongs_to_the_time_of_all_by_its_middle() -> None:
    """A client that began half a second later shares 10 whole windows, at one end or at the other."""
    ahead = client(*[100] * 14)
    for by_s, first_s in ((0.5, 2.5), (-0.5, 2.0)):
        done = summed(fleet(ahead, shifted(client(*[100] * 14), by_s)))
        assert (done.operations, done.first_s) == (100 * 22, BEGAN_S + first_s)


def test_the_shortest_time_of_all_has_two_windows_and_an_operation_of_each_client() -> None:
    assert summed(fleet(client(1, *[10] * 2, 1))).operations == 20
    nothing = Interval(0.0, 0.0, math.inf, 0)
    assert summed(fleet(client(*[10] * 2))) == Summed(0.0, 0.0, 0, nothing, nothing, None)
    assert summed(fleet(client(*[10] * 14), shifted(client(*[10] * 14), 9.0))).operations > 0
    assert summed(fleet(client(*[10] * 14), shifted(client(*[10] * 14), 10.0))) == NOTHING


def test_a_percentile_has_as_many_samples_as_windows_with_operations() -> None:
    done = summed(fleet(client(9, 9, *[10, 0] * 6, 10, 9)))
    assert done.p99 is not None
    assert done.p99.mean == pytest.approx(0.05)
    assert replace(done.p99, mean=0.0) == Interval(0.0, 0.05, 0.05, 8)
