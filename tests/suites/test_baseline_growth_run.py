"""What a run of baseline.growth does, in order, what it looks at, and the limits that it writes down."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.memory import Footprint, ThreadTime
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import Bound, History, data_of
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry import counters
from cephlab.lab.workloads import radosbench
from cephlab.lab.workloads.radosbench import BenchJob
from cephlab.suites.baseline import growth
from cephlab.suites.baseline.growth import SCENARIOS, Held
from tests.fake_clock import VirtualClock
from tests.fake_stage import stage_of

FIRST = Held(Footprint(80 * MIB, threads=60, files=70), {"a": 4 * MIB, "b": 6 * MIB}, 1000, 2 * MIB, 20 * MIB)
LAST = Held(Footprint(86 * MIB, threads=63, files=75), {"a": 12 * MIB}, 4000, 3 * MIB, 25 * MIB)


def judged(name: str, first: Held = FIRST, last: Held = LAST) -> dict[str, dict[str, Any]]:
    """The figures over one daemon, by what they are of."""
    recorder = History().recorder("baseline.growth")
    growth.judge(recorder, name, first, last)
    return {data.pop("metric"): data for data in map(dict, data_of(recorder.events(), "figure"))}


def limit(value: float, unit: str, most: float, why: str, *derivation: str) -> dict[str, Any]:
    """A figure with the most that it may be, on any machine."""
    exact = {"value": value, "low": value, "high": value, "unit": unit, "least": None, "most": pytest.approx(most)}
    return {**exact, "why": why, "derivation": list(derivation), "basis": "correctness"}


def test_each_figure_has_its_unit_and_its_limit_and_where_that_comes_from() -> None:
    operations = "3000 operations of 4 KiB at most"
    facts = "3000 operations; resident 80.0 MiB, then 86.0"
    why = "24 MiB for the allocator and 8 KiB for each operation"
    assert judged("osd.0") == {
        "osd.0: memory kept of the load": limit(4.0, "MiB", 24 + 3000 * 8 / 1024, why, facts),
        "osd.0: threads kept of the load": limit(3, "", 16, "clients are gone"),
        "osd.0: open files kept of the load": limit(5, "", 64, "clients are gone"),
        "osd.0: log grown": limit(1.0, "MiB", 1 + 3000 / 2048, operations),
        "osd.0: disk grown": limit(5.0, "MiB", 32 + 3000 * 8 / 1024, operations),
    }


@pytest.mark.parametrize(
    ("half", "what"),
    [(Held(Footprint(1, 1, 1), log_bytes=1), "log"), (Held(Footprint(1, 1, 1), disk_bytes=1), "disk")],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_size_that_was_seen_once_is_not_compared(half: Held, what: str, first: bool) -> None:
    known = Held(Footprint(1, 1, 1), log_bytes=1, disk_bytes=1)
    pair = (half, known) if first else (known, half)
    assert [metric for metric in judged("mon.a", *pair) if "grown" in metric] == [f"mon.a: {what} grown"]


def test_only_osds_witness_their_operations_and_600_of_them_are_enough() -> None:
    recorder = History().recorder("baseline.growth")
    for name in ("mon.a", "osd.0"):
        growth.judge(recorder, name, Held(Footprint(1, 1, 1)), Held(Footprint(1, 1, 1), operations=600))
    assert data_of(recorder.events(), "witness") == [{"what": "operations of osd.0", "got": 600, "least": 600}]
    assert CHECKS["figures"](recorder.events()).outcome is Outcome.PASS


def test_a_commit_may_take_four_times_the_quickest_and_ten_ms() -> None:
    recorder = History().recorder("baseline.growth")
    growth.note_commits(recorder, {3: 2.0, 7: 2.5})
    why = "4 times the quickest OSD of its architecture and 10 ms"
    assert [(data["metric"], data["value"]) for data in data_of(recorder.events(), "figure")] == [
        ("osd.3: mean time of a commit", 2.0),
        ("osd.7: mean time of a commit", 2.5),
    ]
    for data in data_of(recorder.events(), "figure"):
        assert [data[key] for key in ("least", "most", "unit", "basis", "why")] == [None, 18.0, "ms", "shape", why]


@pytest.mark.parametrize(("commits", "seconds", "mean_ms"), [(50.0, 0.25, 5.0), (1.0, 0.25, 250.0)])
def test_the_time_of_a_commit_is_the_mean_of_the_load(commits: float, seconds: float, mean_ms: float) -> None:
    counted = {"bluestore.kv_commit_lat": commits, "bluestore.kv_commit_lat.sum": seconds}
    assert growth.commit_ms(counted) == pytest.approx(mean_ms)
    assert growth.commit_ms({}) == 0.0


@pytest.mark.parametrize("times_ms", [{}, {2: 60.0}], ids=["none", "a lone one"])
def test_an_osd_without_equals_has_nothing_to_be_compared_with(times_ms: dict[int, float]) -> None:
    recorder = History().recorder("baseline.growth")
    growth.note_commits(recorder, times_ms)
    assert not recorder.events()


@pytest.mark.parametrize(("blocks", "busy_s"), [(2, 1.5), (3, 0.0)])
def test_a_thread_that_blocked_more_than_twice_does_not_spin(blocks: int, busy_s: float) -> None:
    assert growth.busiest({1: ThreadTime(5.0, 7)}, {1: ThreadTime(6.5, 7 + blocks)}) == busy_s


def test_an_osd_may_report_16_mib_more_or_less_than_it_counts() -> None:
    recorder = History().recorder("baseline.growth")
    held = {"osd.0": FIRST, "osd.1": Held(Footprint(1, 1, 1))}
    growth.note_usage(recorder, {"osd.1": 21 * MIB, "osd.0": 19 * MIB}, held)
    first, second = data_of(recorder.events(), "figure")
    assert (first["metric"], second["metric"]) == ("osd.0: space reported as used", "osd.1: space reported as used")
    assert [first[key] for key in ("value", "least", "most", "unit", "basis")] == [
        19.0,
        4.0,
        36.0,
        "MiB",
        "correctness",
    ]
    assert (second["least"], second["most"]) == (-16.0, 16.0)
    assert first["why"] == "its own counters say 20.0 MiB; its database may grow or shrink in between"


def test_the_manager_is_asked_for_what_it_says_that_osds_use() -> None:
    nodes = {"osd df": {"nodes": [{"name": "osd.0", "kb_used": 3}, {"name": "osd.4", "kb_used": 2048}]}}
    cluster = SimpleNamespace(client=SimpleNamespace(mgr=nodes.__getitem__))
    assert growth.used_bytes(cast("Any", cluster)) == {"osd.0": 3072, "osd.4": 2 * MIB}


def test_the_quietest_of_three_spans_of_two_seconds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its threads is busy at first, and one all the time; a daemon elsewhere is not looked at."""
    clock = VirtualClock()

    def threads(daemon: Any) -> dict[int, ThreadTime]:
        if daemon.name == "osd.0":
            return {1: ThreadTime(wanted_s=min(clock.now, 3.0)), 2: ThreadTime(blocks=int(clock.now))}
        return {1: ThreadTime(wanted_s=clock.now)}

    pids = {"osd.0": 5, "osd.1": 6, "osd.2": 0}
    monkeypatch.setattr(growth, "SYSTEM", clock)
    monkeypatch.setattr(growth, "threads_here", threads)
    daemons = {
        name: SimpleNamespace(name=name, started=lambda pid=pid: SimpleNamespace(pid=pid)) for name, pid in pids.items()
    }
    busy = growth.least_busy(cast("Any", SimpleNamespace(daemons=daemons)))
    assert busy == {"osd.0": 0.0, "osd.1": 1.0}
    assert clock.slept == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(("tier", "writes", "read_s"), [(Tier.QUICK, 600, 2), (Tier.FULL, 6000, 20)])
def test_a_load_is_so_many_small_writes_then_reads_of_them(
    monkeypatch: pytest.MonkeyPatch, tier: Tier, writes: int, read_s: int
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(radosbench, "run", lambda *of: done.append(of))
    cluster = SimpleNamespace(load_nodes=lambda: ["c0", "c1"])
    growth.load(cast("Any", cluster), tier, "round1")
    written = BenchJob("growth", "write", 120, block_bytes=4096, run="round1", most_bytes=writes * 4096)
    read = BenchJob("growth", "rand", read_s, block_bytes=4096, run="round1", most_bytes=writes * 4096)
    assert done == [(cluster, "c0", written), (cluster, "c0", read)]


COUNTED = {"osd": {"op": 7, "subop": 30}, "bluestore": {"allocated": 500}, "bluefs": {"db_used_bytes": 60}}


def test_an_osd_releases_memory_and_then_tells_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    host = SimpleNamespace(directory=PurePosixPath("/d"))
    kinds = {"osd.0": "osd", "mon.a": "mon"}
    daemons = {
        name: SimpleNamespace(name=name, kind=kind, host=host, log=f"{name}.log", output=f"{name}.out")
        for name, kind in kinds.items()
    }
    sizes = {
        ("osd.0", "osd.0.log", "osd.0.out"): 11,
        ("mon.a", "mon.a.log", "mon.a.out"): 12,
        ("mon.a", PurePosixPath("/d/mon.a")): 13,
    }

    def looked(daemon: Any) -> Footprint:
        said.append(daemon.name)
        return Footprint(1, 2, 3)

    def command(name: str, prefix: str, *, heapcmd: str) -> None:
        said.append((name, prefix, heapcmd))

    told = {
        ("osd.0", "perf dump"): COUNTED,
        ("osd.0", "dump_mempools"): {"mempool": {"by_pool": {"a": {"items": 1, "bytes": 9}}}},
    }
    client = SimpleNamespace(command=command, tell=lambda name, prefix: told[name, prefix])
    monkeypatch.setattr(growth, "footprint", looked)
    monkeypatch.setattr(growth, "size_of", lambda daemon, *paths: sizes[daemon.name, *paths])
    cluster = SimpleNamespace(daemons=daemons, daemon=daemons.__getitem__, client=client)
    assert growth.look(cast("Any", cluster)) == {
        "osd.0": Held(Footprint(1, 2, 3), {"a": 9}, operations=37, log_bytes=11, disk_bytes=560),
        "mon.a": Held(Footprint(1, 2, 3), log_bytes=12, disk_bytes=13),
    }
    assert said == [("osd.0", "heap", "release"), "osd.0", "mon.a"]


class Loaded:
    """Three OSDs, two of them of one architecture, and a monitor. said: what was done, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[Any] = []
        self.looks = 0
        osds = {Arch.X86_64: [0, 1], Arch.AARCH64: [2]}
        self.cluster = SimpleNamespace(
            spec=SimpleNamespace(archs=tuple(osds)),
            osd_ids=osds.__getitem__,
            settle=lambda: self.said.append("settle"),
            daemon=lambda name: SimpleNamespace(host=f"host of {name}"),
        )
        self.stage = stage_of(self.cluster)
        monkeypatch.setattr(growth, "own", lambda known: known)
        monkeypatch.setattr(counters, "of_osds", self.of_cluster(self.counted))
        monkeypatch.setattr(pools, "pool", self.pool)
        monkeypatch.setattr(growth, "load", self.of_cluster(lambda tier, run: self.said.append((tier, run))))
        monkeypatch.setattr(growth, "look", self.of_cluster(self.look))
        monkeypatch.setattr(growth, "least_busy", self.of_cluster(self.least_busy))
        monkeypatch.setattr(growth, "used_bytes", self.of_cluster(lambda: {"osd.0": 20 * MIB}))
        monkeypatch.setattr(growth, "osd_memory", self.bound)
        growth.growth(self.stage)

    def of_cluster(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """The function for this cluster only."""

        def acting(cluster: object, *rest: object) -> Any:
            assert cluster is self.cluster
            return act(*rest)

        return acting

    def bound(self, stage: object, host: str) -> Bound:
        assert stage is self.stage
        return Bound(host, most=100.0)

    def counted(self) -> dict[int, dict[str, float]]:
        """One commit of a second before the load, and 10 of 20 ms in it; OSD 1 takes longer."""
        commits, seconds = (1.0, 1.0) if not self.said else (11.0, 1.2)
        self.said.append("counters")
        return {
            osd: {"bluestore.kv_commit_lat": commits, "bluestore.kv_commit_lat.sum": seconds * (1 + (osd == 1))}
            for osd in range(3)
        }

    def least_busy(self) -> dict[str, float]:
        self.said.append("busy")
        return {"osd.0": 0.5, "mon.a": 0.75}

    @contextmanager
    def pool(self, cluster: object, name: str, **more: Any) -> Iterator[None]:
        assert cluster is self.cluster
        self.said.append((name, more))
        yield
        self.said.append("end of the pool")

    def look(self) -> dict[str, Held]:
        """Each look finds a MiB more than the one before."""
        self.looks += 1
        self.said.append("look")
        held = Held(Footprint(50 * MIB + self.looks * MIB, 9, 9), {}, 600 * self.looks, 0, 20 * MIB)
        return dict.fromkeys(("osd.2", "osd.1", "osd.0", "mon.a"), held)


def test_a_run_compares_the_last_of_three_loads_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Loaded(monkeypatch)
    rounds = [step for number in range(3) for step in ((Tier.QUICK, f"round{number}"), "look")]
    start, end = ["counters", ("growth", {"pg_num": 8})], ["counters", "busy", "settle", "look", "end of the pool"]
    assert run.said == [*start, *rounds, *end]
    figures = {data["metric"]: data for data in data_of(run.stage.recorder.events(), "figure")}
    osds, daemons = ("osd.0", "osd.1", "osd.2"), ("mon.a", "osd.0", "osd.1", "osd.2")
    kept = ("memory kept of the load", "threads kept of the load", "open files kept of the load")
    assert list(figures) == [
        "osd.0: space reported as used",
        *(f"{name}: {what}" for name in daemons for what in (*kept, "log grown", "disk grown")),
        *(f"{name}: resident memory" for name in osds),
        "osd.0: mean time of a commit",
        "osd.1: mean time of a commit",
        "osd.0: busiest thread without a load",
        "mon.a: busiest thread without a load",
    ]
    assert figures["osd.1: memory kept of the load"]["value"] == 2.0
    resident = figures["osd.2: resident memory"]
    assert [resident[key] for key in ("value", "unit", "most", "why")] == [53.0, "MiB", 100.0, "host of osd.2"]
    assert figures["osd.0: mean time of a commit"]["value"] == pytest.approx(20.0)
    assert figures["osd.1: mean time of a commit"]["value"] == pytest.approx(40.0)
    busy = figures["mon.a: busiest thread without a load"]
    assert [busy[key] for key in ("value", "unit", "most", "basis")] == [0.75, "of the time", 0.75, "correctness"]
    assert busy["why"] == "no client sends requests"
    assert [data["got"] for data in data_of(run.stage.recorder.events(), "witness")] == [1200] * 3
    assert CHECKS["figures"](run.stage.recorder.events()).outcome is Outcome.PASS


def test_the_scenario_must_see_the_memory_of_each_kind_of_daemon() -> None:
    [scenario] = SCENARIOS
    assert (scenario.name, scenario.run, scenario.check) == ("baseline.growth", growth.growth, "figures")
    assert scenario.topology is ANY_ARCH
    assert scenario.sees == tuple(f"{kind}.*: memory kept of the load" for kind in ("mon", "mgr", "osd"))
