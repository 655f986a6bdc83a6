"""A scale model's load as a whole, on machines that use known shares of what they are held to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.base.probe import MIPS_PER_POINT
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History, data_of
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.workloads.fio import NOTHING, Done, FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.scale import model
from cephlab.suites.scale.machines import NEEDS, HeldNode, ScaledTopology, Spent
from cephlab.suites.scale.model import Wanted, allowed_factor, scenario_for, scenario_of, speed_of_a_cpu, wanted_of
from cephlab.tuning.calibrate import core
from cephlab.tuning.constants import current
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.held import load_factor
from cephlab.tuning.model import predict
from cephlab.tuning.requirements import Protection
from tests.suites.test_scale_suite import model as wanted_model

IDLE = 0.1
SPEED = 4.0
USE = {"CPU": 0.4, "disk": 0.95, "network": 0.2}
CLIENTS = ("client", "client1")


@dataclass
class Machines:
    """The clock, and nodes whose CPUs are in use by IDLE without a load, and that are used as `use` says under one."""

    cores: Mapping[str, float]
    rate: float = 0.0
    use: Mapping[str, float] = field(default_factory=lambda: USE)
    operations: tuple[int, int] = (1000, 1000)
    errors: int = 0
    missed: float = 0.0
    now_s: float = 500.0
    loaded_s: float = 0.0
    held: Mapping[str, HeldNode] = field(default_factory=dict)
    made: list[tuple[Any, ...]] = field(default_factory=list)
    ran: list[tuple[bool, list[tuple[str, FioJob]]]] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @contextmanager
    def images(self, cluster: Any, *how: Any, passes: int) -> Iterator[list[BlockImage]]:
        self.made.append((cluster.client_name, passes, *how))
        assert how[1] == len(CLIENTS)
        yield [BlockImage("p", f"image{number}", how[2]) for number in range(how[1])]

    @contextmanager
    def holding(self, cluster: Any, nodes: Sequence[HeldNode]) -> Iterator[None]:
        assert cluster.client_name
        self.held = {node.name: node for node in nodes}
        yield
        self.held = {}

    def run_jobs(self, cluster: Any, jobs: list[tuple[str, FioJob]]) -> list[FioResult]:
        assert cluster.client_name
        self.ran.append((bool(self.held), jobs))
        self.sleep(20.0)
        if self.held:
            self.loaded_s += 20.0
        rate = self.rate / len(jobs)
        return [
            FioResult(NOTHING, Done(count, 1, 1.0, rate, 0.01, errors, rate / 50, 50))
            for _, count, errors in zip(jobs, self.operations, (self.errors, 0), strict=False)
        ]

    def spent(self, cluster: Any, name: str) -> Spent:
        assert cluster.client_name
        idle_s = self.now_s - self.loaded_s
        cpu_s = self.cores[name] * (IDLE * idle_s + self.use["CPU"] * self.loaded_s)
        if not self.held:
            return Spent(cpu_s, {}, 0)
        node = self.held[name]
        written = self.use["disk"] * self.loaded_s * (node.disk.write_bytes_s or 0)
        sent = round(self.use["network"] * self.loaded_s * node.sent_bytes)
        read = {"hit": 1 - self.missed, "miss": self.missed}
        from_memory = {f"bluestore.buffer_{what}_bytes": share * self.loaded_s * 1e6 for what, share in read.items()}
        return Spent(cpu_s, {"bluefs.write_bytes": written, **from_memory}, sent)


def topology_of(wanted: Wanted) -> ScaledTopology:
    topology = scenario_of(wanted).topology
    assert isinstance(topology, ScaledTopology)
    return topology


def run(
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    of: str | Wanted,
    times: float = 1.0,
    tier: Tier = Tier.QUICK,
    **more: Any,
) -> tuple[Machines, Stage]:
    """The load of a shipped cluster's model, which reaches so many times its share of the predicted rate."""
    wanted = wanted_model(of) if isinstance(of, str) else of
    cores = topology_of(wanted).cores
    demands, _ = find_demands(home)
    ((_, shape),) = wanted.requirement.shapes
    share = sum(cores) * SPEED / sum(stand.points for stand in wanted.stands)
    rate = times * share * predict(demands, wanted.hardware.profile, shape).ops
    machines = Machines({f"n{number}": held for number, held in enumerate(cores)}, rate, **more)
    for what, instead in {
        "SYSTEM": machines,
        "images": machines.images,
        "held": machines.holding,
        "run_jobs": machines.run_jobs,
        "spent": machines.spent,
        "speed_of_a_cpu": lambda stage: SPEED * len(stage.cluster.hosts) / len(CLIENTS),
    }.items():
        monkeypatch.setattr(model, what, instead)
    cluster = SimpleNamespace(
        run=SimpleNamespace(home=Home(home)), client_name="client.x", hosts=dict.fromkeys(CLIENTS)
    )
    scenario = scenario_of(wanted)
    stage = Stage(cast("Cluster", cluster), History().recorder(scenario.name), Random(1), home, tier=tier)
    scenario.run(stage)
    return machines, stage


def values_of(stage: Stage) -> dict[str, float]:
    return {data["metric"]: data["value"] for data in data_of(stage.recorder.events(), "figure")}


def test_a_model_that_does_its_share_of_the_rate_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, stage = run(monkeypatch, tmp_path, "scale-disk")
    assert CHECKS["figures"](stage.recorder.events()).outcome is Outcome.PASS
    assert values_of(stage) == {
        "measured / k over predicted": pytest.approx(1.0, rel=1e-3),
        "CPU in use": pytest.approx(0.4),
        "disk in use": pytest.approx(0.95),
        "network in use": pytest.approx(0.2, rel=1e-3),
    }


def test_a_model_bound_by_cpus_is_held_to_what_they_have_left_for_the_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tenth of the CPUs is in use without a load: nine tenths of the predicted rate are all that can be done."""
    _, stage = run(monkeypatch, tmp_path, "scale-cpu", 1 - IDLE, use={"CPU": 0.95, "disk": 0.1, "network": 0.2})
    assert values_of(stage)["measured / k over predicted"] == pytest.approx(1.0, rel=1e-3)
    assert CHECKS["figures"](stage.recorder.events()).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"operations": (100, 1000)}, Outcome.PASS),
        ({"operations": (1000, 99)}, Outcome.INCONCLUSIVE),
        ({"errors": 1}, Outcome.FAIL),
    ],
)
def test_a_load_that_hardly_ran_or_had_errors_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: dict[str, Any], outcome: Outcome
) -> None:
    _, stage = run(monkeypatch, tmp_path, "scale-disk", **more)
    assert CHECKS["figures"](stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(("tier", "runtime_s"), [(Tier.QUICK, 15.0), (Tier.FULL, 60.0)])
def test_each_client_runs_its_part_of_the_load_on_limited_nodes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tier: Tier, runtime_s: float
) -> None:
    machines, _ = run(monkeypatch, tmp_path, "scale-disk", tier=tier)
    [(limited, jobs)] = machines.ran
    assert limited
    assert [node for node, _ in jobs] == list(CLIENTS)
    for _, job in jobs:  # 16 clients with 4 requests each, by two load generators
        assert (job.pattern, job.block_bytes, job.depth, job.runtime_s) == ("write", 64 << 10, 32, runtime_s)
        assert job.options == {"rbd_cache": "false"}
        assert job.more == {"ramp_time": "5", "norandommap": "1"}
    small_objects = ("--object-size", "1M")
    assert machines.made == [("client.x", 2, Protection(replicas=3), 2, 128 << 20, *small_objects)]


@pytest.mark.parametrize(("clients", "depths"), [(1, [1]), (2, [1, 1]), (3, [2, 1])])
def test_as_many_operations_are_in_flight_as_declared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clients: int, depths: list[int]
) -> None:
    wanted = wanted_model("scale-disk")
    few = wanted.requirement.model_copy(update={"clients": clients, "depth": 1})
    machines, _ = run(monkeypatch, tmp_path, replace(wanted, requirement=few))
    [(_, jobs)] = machines.ran
    assert [(node, job.depth) for node, job in jobs] == list(zip(CLIENTS, depths, strict=False))


def test_images_that_answer_from_memory_are_read_once_before_the_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machines, _ = run(monkeypatch, tmp_path, "scale-cpu", use={"CPU": 0.95, "disk": 0.1, "network": 0.2})
    (limited, warming), (limited_then, load) = machines.ran
    assert (limited, limited_then) == (False, True)
    assert {(job.pattern, job.block_bytes, job.depth) for _, job in warming} == {("read", 1 << 20, 8)}
    assert {(job.size_bytes, job.runtime_s, *job.more) for _, job in warming} == {(128 << 20, 0.0)}
    assert machines.made[0][1] == 1
    room = dict(topology_of(wanted_model("scale-cpu")).options)
    assert int(room["bluestore_cache_size"]) // 10 // int(room["osd_num_cache_shards"]) == 2 * (128 << 20)
    assert {(job.pattern, job.block_bytes, job.depth) for _, job in load} == {("randread", 4096, 128)}


@pytest.mark.parametrize(
    ("missed", "outcome"), [(0.0, Outcome.PASS), (0.02, Outcome.PASS), (0.03, Outcome.INCONCLUSIVE)]
)
def test_a_load_from_memory_that_went_to_disks_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missed: float, outcome: Outcome
) -> None:
    use = {"CPU": 0.95, "disk": 0.1, "network": 0.2}
    _, stage = run(monkeypatch, tmp_path, "scale-cpu", 1 - IDLE, use=use, missed=missed)
    assert CHECKS["figures"](stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("missed", "outcome"), [(1.0, Outcome.PASS), (0.98, Outcome.PASS), (0.9, Outcome.INCONCLUSIVE)]
)
def test_a_load_from_disks_that_memory_answered_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missed: float, outcome: Outcome
) -> None:
    of = wanted_model("scale-network")
    cold = wanted_of(of.hardware, of.requirement.model_copy(update={"hit_ratio": 0.0}))
    assert isinstance(cold, Wanted)
    assert dict(topology_of(cold).options) == {"bluestore_default_buffered_read": "false"}
    use = {"CPU": 0.2, "disk": 0.1, "network": 0.95}
    machines, stage = run(monkeypatch, tmp_path, cold, use=use, missed=missed)
    assert [limited for limited, _ in machines.ran] == [True]
    assert CHECKS["figures"](stage.recorder.events()).outcome is outcome


def test_a_load_of_which_memory_answers_a_part_has_no_model() -> None:
    of = wanted_model("scale-cpu")
    part = of.requirement.model_copy(update={"hit_ratio": 0.3})
    assert wanted_of(of.hardware, part) == "memory answers all of a model's reads or none, and not 30.0 % of them"


@pytest.mark.parametrize(("name", "factor"), [("scale-cpu", 1.88), ("scale-disk", 1.3), ("scale-network", 1.3)])
def test_only_a_model_that_cpus_bound_may_be_off_as_far_as_predictions_are(
    tmp_path: Path, name: str, factor: float
) -> None:
    """What operations cost was measured on another machine; kernel limits are exact."""
    wanted = wanted_model(name)
    demands, _ = find_demands(tmp_path)
    ((_, shape),) = wanted.requirement.shapes
    prediction = predict(demands, wanted.hardware.profile, shape)
    assert allowed_factor(wanted, prediction) == pytest.approx(factor, abs=0.005)
    if name == "scale-cpu":
        assert allowed_factor(wanted, prediction) == load_factor(wanted.requirement, wanted.hardware.profile)


def test_each_figure_says_what_it_is_held_to_and_how_it_came_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, stage = run(monkeypatch, tmp_path, "scale-disk")
    ratio, *used = data_of(stage.recorder.events(), "figure")
    assert (ratio["why"], ratio["basis"], ratio["unit"]) == ("the model within 1.3 times", "shape", "")
    assert (ratio["least"], ratio["most"]) == (pytest.approx(1 / 1.3), 1.3)
    steps = "\n".join(ratio["derivation"])
    assert f"(demands {find_demands(tmp_path)[1]})" in steps
    assert "ops/s of scale-disk, limit: " in steps
    assert "10.0 % of its CPUs in use without a load" in steps
    assert "disk in use at the busiest node: 95 %" in steps
    assert "the busiest node does 1.000 times the mean" in steps
    for data in used:
        assert (data["unit"], data["basis"], data["least"], data["most"]) == ("", "noted", None, None)
        assert data["why"].startswith("not judged: only the bottleneck")
    witnessed = {data["what"]: data["least"] for data in data_of(stage.recorder.events(), "witness")}
    assert witnessed == {"operations of the slowest load generator": 100, "disk in use, the busiest resource": 0.7}


def test_a_scenario_records_what_it_says_that_it_sees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = wanted_model("scale-disk")
    scenario = scenario_for(wanted.hardware, wanted.requirement)
    assert (scenario.check, scenario.needs) == ("figures", NEEDS)
    assert topology_of(wanted).parts == (0.333333,) * 3
    _, stage = run(monkeypatch, tmp_path, wanted)
    assert stage.recorder.scenario == scenario.name == "scale.model[profile=scale-disk,load=large-writes]"
    recorded = {event.data.get("metric", event.data.get("what")) for event in stage.recorder.events()}
    assert scenario.sees
    assert set(scenario.sees) <= recorded


def test_links_are_those_that_writes_or_reads_reach() -> None:
    """Copies of a write meet at the ports of the nodes, so less of their links can be used."""
    writing = wanted_model("scale-disk")
    reading = wanted_of(writing.hardware, writing.requirement.model_copy(update={"op": "read"}))
    assert isinstance(reading, Wanted)
    assert writing.stands[0].bandwidth == pytest.approx(reading.stands[0].bandwidth * current().incast)
    assert current().incast < 1


def test_a_load_has_no_more_requests_in_flight_than_a_laptop_can_make() -> None:
    wanted = wanted_model("scale-cpu")
    assert wanted.in_flight == 32 * 8
    deeper = wanted.requirement.model_copy(update={"depth": 9})
    assert replace(wanted, requirement=deeper).in_flight == 256


@pytest.mark.parametrize(
    ("logical", "physical", "threads"),
    [(8, 4, 2), (8, 8, 1), (12, 8, 1), (8, None, 1), (None, None, 1)],
    ids=["two threads a core", "one", "of some cores", "cores are not known", "nothing is known"],
)
@pytest.mark.parametrize("probed", [True, False])
def test_the_speed_of_a_cpu_is_its_part_of_a_core_whose_threads_are_all_busy(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    logical: int | None,
    physical: int | None,
    threads: int,
    *,
    probed: bool,
) -> None:
    """By the machine's profile, else by 7-Zip's rating of all CPUs together, which is made once a boot."""
    home = Home(tmp_path)
    home.images.mkdir(parents=True)
    points = 5.0 if probed else 3.0
    rating = 3.0 * (logical or 1) * MIPS_PER_POINT
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True, known=logical: known if logical else physical)
    monkeypatch.setattr(model, "speed_here", lambda of: 5.0 if probed and of is home else 0.0)
    monkeypatch.setattr(model, "require_seven_zip", lambda: "7z")
    asked: list[str] = []

    def rated(program: str) -> float:
        asked.append(program)
        return rating

    monkeypatch.setattr(model, "cpu_rating", rated)
    stage: Any = SimpleNamespace(cluster=SimpleNamespace(run=SimpleNamespace(home=home)))
    for _ in range(2):
        assert speed_of_a_cpu(stage) == pytest.approx(core(points * threads, threads, current()) / threads)
    assert asked == ([] if probed else ["7z"]), "rating takes a minute of CPU"
    monkeypatch.setattr(model, "boot_id", lambda: "the next boot")
    speed_of_a_cpu(stage)
    assert asked == ([] if probed else ["7z", "7z"]), "another boot may be another machine"
