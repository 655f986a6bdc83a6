"""What may be wrong with a measured figure: busy clients cannot fail a good cluster, memory cannot pass a bad one."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, History
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.loadcpu import LoadCpu
from cephlab.lab.workloads.fio import FioJob
from cephlab.lab.workloads.radosbench import BenchJob
from cephlab.suites import bias as biased
from cephlab.suites.bias import FULL_CPU, UNBIASED, Bias, Watch, at_limit, from_memory, note_cpu, of_all, watched
from tests.fake_stage import stage_of

IDLE = LoadCpu("fio", 0.3, 0.6, 1.2, 8)
FULL_THREAD = LoadCpu("msgr-worker-0", 0.51, 1.1, 1.2, 8)
HALF_THREAD = LoadCpu("msgr-worker-0", FULL_CPU, 4.0, 4.0, 8)
CROWDED = LoadCpu("fio", 0.3, 1.2, 5.0, 8)
RATE, LATENCY = Interval(100.0, 90.0, 110.0, 9), Interval(0.01, 0.009, 0.011, 9)
BUSY, HALF_READ, ALL_READ = Bias("the clients were busy"), Bias("", 0.5, "Half"), Bias("", 1.0, "All")


class FakeMeter:
    """Looks at nothing; `used` and `unread` are what it would have seen."""

    used_cpus: Mapping[str, LoadCpu]
    made: list["FakeMeter"]

    def __init__(self, hosts: Mapping[str, Any], ramp_s: float = 0.0) -> None:
        self.hosts, self.ramp_s, self.running, self.unread = hosts, ramp_s, False, dict[str, str]()
        self.made.append(self)

    @contextmanager
    def looking(self) -> Iterator[None]:
        self.running = True
        yield
        self.running = False

    def used(self) -> dict[str, LoadCpu]:
        self.unread = {name: "no /proc" for name in self.hosts if name not in self.used_cpus}
        return {name: self.used_cpus[name] for name in self.hosts if name in self.used_cpus}


def metered(monkeypatch: pytest.MonkeyPatch, used: Mapping[str, LoadCpu]) -> list[FakeMeter]:
    """Replace the meter of clients' CPUs by one that saw this. Returns those that are made."""
    made: list[FakeMeter] = []
    monkeypatch.setattr(FakeMeter, "used_cpus", used, raising=False)
    monkeypatch.setattr(FakeMeter, "made", made, raising=False)
    monkeypatch.setattr(biased, "LoadMeter", FakeMeter)
    return made


def osds_with(memory: float | None, count: int = 2) -> SimpleNamespace:
    """What a cluster says of its OSDs' memory. memory: of each; None: they do not tune their caches."""
    dump = {"bluestore-pricache": {"target_bytes": memory}} if memory else {"osd": {"op": 1}}
    client = SimpleNamespace(tell=lambda target, command: dump if command == "perf dump" else target)
    return SimpleNamespace(osd_ids=lambda: list(range(count)), client=client)


def cluster_of(memory: float | None = 1e9, *, emulated: bool = False) -> Any:
    hosts = {name: SimpleNamespace(name=name, emulated=emulated) for name in ("c0", "c1")}
    nodes = [SimpleNamespace(name="n0", has_daemons=True), *(SimpleNamespace(name=n, has_daemons=False) for n in hosts)]
    return SimpleNamespace(hosts=hosts, spec=SimpleNamespace(nodes=nodes), **vars(osds_with(memory)))


def outcome_of(bias: Bias, **limit: float) -> Outcome:
    """Of a rate of 100 or a latency of 10 ms with 10 % either way."""
    recorder = History().recorder("block.paper")
    recorder.witness("operations", got=1000, least=1)
    bound = bias.told(Bound("so", **limit, basis=Basis.PROFILE))  # type: ignore[arg-type]
    measured = bias.latency(LATENCY) if "most" in limit else bias.rate(RATE)
    recorder.figure("x", measured.mean, "", bound, interval=(measured.low, measured.high))
    verdict = figures(recorder.events())
    assert bound.why == ". ".join(["so", *bias.sentences])
    assert bound.why in verdict.reason or verdict.outcome is Outcome.PASS
    return verdict.outcome


@pytest.mark.parametrize(
    ("limit", "sound", "busy", "half", "all_of_it"),
    [
        ({"least": 200.0}, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL, Outcome.FAIL),
        ({"least": 80.0}, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE),
        ({"least": 40.0}, Outcome.PASS, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE),
        ({"most": 0.005}, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL, Outcome.FAIL),
        ({"most": 0.02}, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE),
        ({"most": 0.03}, Outcome.PASS, Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE),
    ],
)
def test_busy_clients_cannot_fail_a_cluster_and_memory_cannot_pass_it(
    limit: dict[str, float], sound: Outcome, busy: Outcome, half: Outcome, all_of_it: Outcome
) -> None:
    assert [outcome_of(bias, **limit) for bias in (UNBIASED, BUSY, HALF_READ, ALL_READ)] == [
        sound,
        busy,
        half,
        all_of_it,
    ]


def test_ends_are_open_on_the_side_that_is_in_doubt_and_no_number_is_lost() -> None:
    assert (BUSY.rate(RATE), BUSY.latency(LATENCY)) == (
        Interval(100.0, 90.0, math.inf, 9),
        Interval(0.01, 0.0, 0.011, 9),
    )
    assert (HALF_READ.rate(RATE), HALF_READ.latency(LATENCY)) == (
        Interval(100.0, 45.0, 110.0, 9),
        Interval(0.01, 0.009, 0.022, 9),
    )
    assert (ALL_READ.rate(RATE).low, ALL_READ.latency(LATENCY).high) == (0.0, math.inf)
    unknown = Interval(100.0, -math.inf, math.inf, 1)
    assert ALL_READ.rate(unknown).low == 0.0
    assert (UNBIASED.rate(RATE), UNBIASED.latency(LATENCY), UNBIASED.sentences) == (RATE, LATENCY, ())


def test_several_loads_together_have_each_doubt_about_any_of_them() -> None:
    assert of_all([UNBIASED, HALF_READ, BUSY, ALL_READ, UNBIASED]) == Bias(BUSY.busy, 1.0, ALL_READ.memory)
    assert of_all([UNBIASED]) == UNBIASED


def test_what_is_in_doubt_is_said_with_what_to_do() -> None:
    both = Bias("the clients were busy", 0.5, "Half of it is read from memory")
    assert both.sentences == (
        "The clients were busy: the cluster may be faster, so its speed cannot fail it. Use more or faster client "
        "machines.",
        "Half of it is read from memory: disks may be slower, and the slow end allows for it. Read more data, or state "
        "the share of reads from memory as `hit_ratio` in a requirement.",
    )
    noted = Bound("recorded only", basis=Basis.NOTED)
    assert both.told(noted) == both.told_of_watts(noted) == noted


def test_watts_are_open_above_with_busy_clients_alone_and_say_so() -> None:
    plug, bound = Interval(900.0, 873.0, 927.0, 4), Bound("so", most=1000.0, basis=Basis.PROFILE)
    assert BUSY.watts(plug) == Interval(900.0, 873.0, math.inf, 4)
    assert BUSY.told_of_watts(bound).why == (
        f"so. {BUSY.busy[0].upper()}{BUSY.busy[1:]}: fully loaded machines may take more, so these watts cannot pass "
        "them. Use more or faster client machines."
    )
    for bias in (UNBIASED, ALL_READ):
        assert (bias.watts(plug), bias.said_of_watts, bias.told_of_watts(bound)) == (plug, (), bound)


# Busy clients


def test_a_machine_more_than_half_full_or_emulated_may_be_the_limit() -> None:
    hosts = cluster_of().hosts
    cpus = {"c0": 4.0, "c1": 8.0}
    assert at_limit(hosts, {"c0": 2.0, "c1": 4.0}, cpus, "") == ""
    assert at_limit(hosts, {"c0": 2.0, "c1": 4.0}, cpus, "one was busy") == "one was busy"
    assert at_limit(hosts, {"c0": 2.1, "c1": 4.0}, cpus, "x") == "more than half of the CPU time of c0 was used"
    emulated = cluster_of(emulated=True).hosts
    assert at_limit(emulated, {"c0": 9.0}, cpus, "x") == "the clients on c0, c1 are emulated"


def test_how_busy_clients_were_is_in_the_record() -> None:
    recorder = History().recorder("profile.load")
    note_cpu(recorder, "writes", 0.7, 0.2)
    seen = {
        each.data["metric"]: (each.data["value"], each.data["unit"], each.data["basis"]) for each in recorder.events()
    }
    assert seen == {
        "writes: busiest client, share of one CPU": (0.7, "", "noted"),
        "writes: busiest client machine, share of its CPUs": (0.2, "", "noted"),
    }


def watch(monkeypatch: pytest.MonkeyPatch, used: Mapping[str, LoadCpu], cluster: Any = None, **more: Any) -> Any:
    """(bias, figures by metric) of a load on two machines."""
    metered(monkeypatch, used)
    stage = stage_of(cluster or cluster_of())
    meter = FakeMeter(stage.cluster.hosts)
    bias = Watch(stage, cast("Any", meter)).bias("writes", **more)
    return bias, {
        event.data["metric"].partition("writes: ")[2]: event.data["value"] for event in stage.recorder.events()
    }


def test_clients_that_are_not_busy_leave_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    bias, shown = watch(monkeypatch, {"c0": IDLE, "c1": HALF_THREAD})
    assert bias == UNBIASED
    assert shown == {
        "busiest client, share of one CPU": FULL_CPU,
        "busiest client machine, share of its CPUs": 0.5,
    }


def test_a_busy_thread_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """fio's own figure is of the thread that submits; the limit is often one of librbd or of the messenger."""
    bias, _ = watch(monkeypatch, {"c0": IDLE, "c1": FULL_THREAD})
    assert bias == Bias("a thread of the load used more than half a CPU (msgr-worker-0 on c1)")


@pytest.mark.parametrize(
    ("attached", "with_daemons", "crowded"), [(True, "n0", True), (True, "c0", False), (False, "n0", False)]
)
def test_a_machine_that_only_clients_use_is_seen_whole(
    monkeypatch: pytest.MonkeyPatch, attached: bool, with_daemons: str, crowded: bool
) -> None:
    """krbd works in the kernel, which counts for no thread of fio; what OSDs use beside it is no doubt."""
    cluster = cluster_of()
    cluster.load_nodes = lambda: ["c0", "c1"]
    for node in cluster.spec.nodes:
        node.has_daemons = node.name == with_daemons
    monkeypatch.setattr(biased, "AttachedCluster", SimpleNamespace if attached else FakeMeter)
    monkeypatch.setattr("cephlab.suites.machines.AttachedCluster", SimpleNamespace)
    bias, shown = watch(monkeypatch, {"c0": CROWDED, "c1": IDLE}, cluster)
    assert bool(bias.busy) is crowded
    whole_of_c1 = 1.2 if attached else 0.6
    assert shown["busiest client machine, share of its CPUs"] == max(5.0 if crowded else 1.2, whole_of_c1) / 8


def test_a_machine_that_cannot_be_read_cannot_fail_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    bias, _ = watch(monkeypatch, {"c0": IDLE})
    assert bias == Bias("it is not known how busy the clients were (c1: no /proc)")
    bias, shown = watch(monkeypatch, {})
    assert bias == Bias("it is not known how busy the clients were (c0: no /proc; c1: no /proc)")
    assert shown == {}


# Reads from memory


@pytest.mark.parametrize(
    ("memory", "read_bytes", "allowed", "share"),
    [
        (1e9, 1e9, 0.0, 1.0),
        (1e9, 2e9, 0.0, 1.0),
        (1e9, 4e9, 0.0, 0.5),
        (1e9, 4e9, 0.2, 0.375),
        (1e9, 4e9, 0.5, 0.0),
        (1e9, 4e9, 0.6, 0.0),
        (1e9, 199e9, 0.0, 2 / 199),
        (1e9, 200e9, 0.0, 0.01),
        (1e9, 201e9, 0.0, 0.0),
        (1e9, 2e9 / 0.319, 0.31, 0.0),
        (1e9, 2e9 / 0.321, 0.31, 0.011 / 0.69),
        (1e9, 1e9, 1.0, 0.0),
        (1e9, 0.0, 0.0, 0.0),
        (None, 16 * (1 << 30), 0.0, 0.5),
    ],
)
def test_memory_may_answer_the_share_that_fits_into_it(
    memory: float | None, read_bytes: float, allowed: float, share: float
) -> None:
    answered, words = from_memory(cast("Cluster", osds_with(memory)), read_bytes, allowed)
    assert answered == pytest.approx(share)
    assert bool(words) is bool(share)
    assert from_memory(cast("Cluster", osds_with(1e9)), 4e9)[0] == 0.5


def test_memory_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "Up to 0.25 of the reads may come from the memory of the OSDs (osd_memory_target: 2 GB in all, for 8 GB that "
        "are read)"
    )
    bias, _ = watch(monkeypatch, {"c0": IDLE, "c1": IDLE}, read_bytes=8e9)
    assert bias == Bias("", 0.25, words)
    bias, _ = watch(monkeypatch, {"c0": IDLE, "c1": IDLE}, read_bytes=8e9, allowed=0.25)
    assert bias == UNBIASED


# What is watched


def test_a_load_that_is_judged_is_watched_on_each_machine_after_its_ramp(monkeypatch: pytest.MonkeyPatch) -> None:
    made = metered(monkeypatch, {})
    stage = stage_of(cluster_of())
    jobs: list[tuple[str, FioJob | BenchJob]] = [
        ("c0", FioJob("a", "p", "i", "read", 4096, 1, 1, more={"ramp_time": "5"})),
        ("c0", FioJob("a", "p", "i", "read", 4096, 1, 1, more={"ramp_time": "7"})),
        ("c1", FioJob("a", "p", "i", "read", 4096, 1, 1)),
        ("c1", BenchJob("p", "write", 10)),
    ]
    with watched(stage, jobs, judged=True) as judged:
        [meter] = made
        assert meter.running
        assert (meter.hosts, meter.ramp_s) == (stage.cluster.hosts, 7.0)
        assert judged == Watch(stage, cast("Any", meter))
    assert not meter.running
    for only in (jobs[-1:], jobs[-2:-1]):
        with watched(stage, only, judged=True):
            assert (list(made[-1].hosts), made[-1].ramp_s) == (["c1"], 0.0)


def test_a_load_that_is_not_judged_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    made = metered(monkeypatch, {})
    stage = stage_of(cluster_of())
    with watched(stage, [], judged=False) as free:
        assert free == Watch(stage)
        assert free.bias("writes", 1e9) == UNBIASED
    assert made == []
    assert stage.recorder.events() == ()
