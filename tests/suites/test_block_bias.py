"""Loads of the block suite on a profile's machines: busy clients cannot fail them, memory cannot pass their reads."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Event, History
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.loadcpu import LoadCpu
from cephlab.lab.workloads.fio import NOTHING, Done, FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchResult
from cephlab.suites.block import clients, depth, papers, radosbench, stand, watts
from cephlab.suites.block.expected import expect
from cephlab.suites.block.papers import SETTINGS
from cephlab.suites.block.stand import reread_bytes
from tests.suites.test_bias import FULL_THREAD, IDLE, metered, osds_with
from tests.suites.test_block_suite import result, stage_in

ALTRA = "ampere-altra-4n"
CLIENTS = ("client", "client1", "client2")
SLOW, QUICK = 20.0, 5_000_000.0
LITTLE, MUCH = 1e6, 1e18
"""Memory of an OSD: less than any image, and more than all."""


def stage_there(home: Path, memory: float = LITTLE, lab: str = "ssh") -> Stage:
    """A stage on the Altra paper's machines, with three client machines; or in a lab."""
    inside = stage_in(home, lab, ALTRA)
    hosts = {name: SimpleNamespace(name=name, emulated=False) for name in CLIENTS}
    nodes = [SimpleNamespace(name=name, has_daemons=False, disks=()) for name in CLIENTS]
    more = {"hosts": hosts, "spec": SimpleNamespace(nodes=nodes), "client_name": "client.x", **vars(osds_with(memory))}
    cluster = SimpleNamespace(**vars(inside.cluster), **more)
    recorder, rng = History().recorder("block.x"), random.Random(1)
    return Stage(cast("Cluster", cluster), recorder, rng, Path(), profile=inside.profile, tier=Tier.QUICK)


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def written(_stage: Stage, count: int = 1, size_bytes: int = 1, *_: str, **__: Any) -> Iterator[list[BlockImage]]:
        yield [BlockImage("p", f"i{number}", size_bytes) for number in range(count)]

    for suite in (depth, clients, watts):
        monkeypatch.setattr(suite, "written", written)
    monkeypatch.setattr(pools, "pool", lambda *_, **__: nullcontext("pool"))


def doing(monkeypatch: pytest.MonkeyPatch, iops: float, cpu: LoadCpu) -> None:
    """fio and rados bench reach this rate on each client, whose machine is as busy as that."""
    metered(monkeypatch, dict.fromkeys(CLIENTS, cpu))

    def run_jobs(_cluster: object, jobs: list[tuple[str, FioJob]]) -> list[FioResult]:
        def of(job: FioJob) -> FioResult:
            rate = iops * job.depth
            reading = result(rate, job.depth * job.jobs / rate, rate / 50)
            return FioResult(NOTHING, reading.read) if "write" in job.pattern else reading

        return [of(job) for _, job in jobs]

    done = BenchResult(int(iops * 60), 60.0, 1 << 40, 0.03, iops / 50)
    monkeypatch.setattr(stand, "run_jobs", run_jobs)
    monkeypatch.setattr(radosbench, "run_all", lambda _, jobs: [done for _ in jobs])


def paper(stage: Stage, name: str) -> None:
    [setting] = [each for each in SETTINGS if each.name == name]
    targets = [(BlockImage("p", f"i{number}", 1 << 38), "") for number in range(3)]
    papers.loaded(stage, setting, targets, setting.loads[0], expect(stage, setting.shapes(3)).bounds(0)[0])


LOADS: dict[str, Callable[[Stage], None]] = {
    "paper": lambda stage: paper(stage, "altra-multi-read"),
    "rados-bench": radosbench.run,
    "published-bench": papers.rados_bench,
    "depth": lambda stage: depth.run(stage, "randread"),
    "clients": lambda stage: clients.run(stage, "randread"),
}


def judged(stage: Stage, load: str) -> tuple[Verdict, list[Event]]:
    """The verdict on figures that the profile limits, and all events."""
    LOADS[load](stage)
    events = list(stage.recorder.events())
    limited = [each for each in events if each.kind == "figure" and each.data["basis"] == "profile"]
    assert limited
    stage.recorder.witness("that it was real", got=1, least=1)
    return figures([*limited, stage.recorder.events()[-1]]), events


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.slow
def test_a_busy_client_cannot_fail_a_cluster_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: str
) -> None:
    doing(monkeypatch, SLOW, IDLE)
    assert judged(stage_there(tmp_path), load)[0].outcome is Outcome.FAIL
    doing(monkeypatch, SLOW, FULL_THREAD)
    verdict, events = judged(stage_there(tmp_path), load)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "thread of the load used more than half a CPU (msgr-worker-0 on client" in verdict.reason
    assert "Use more or faster client machines." in verdict.reason
    busiest = [each.data for each in events if each.kind == "figure" and "busiest client, " in each.data["metric"]]
    assert {each["value"] for each in busiest} == {0.51}
    doing(monkeypatch, QUICK, FULL_THREAD)
    assert judged(stage_there(tmp_path), load)[0].outcome is Outcome.PASS


@pytest.mark.usefixtures("images")
@pytest.mark.parametrize("load", ["paper", "depth", "clients"])
@pytest.mark.slow
def test_a_read_from_memory_cannot_pass_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: str) -> None:
    doing(monkeypatch, QUICK, IDLE)
    assert judged(stage_there(tmp_path), load)[0].outcome is Outcome.PASS
    verdict, _ = judged(stage_there(tmp_path, MUCH), load)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "of the reads may come from the memory of the OSDs" in verdict.reason
    doing(monkeypatch, SLOW, IDLE)
    assert judged(stage_there(tmp_path, MUCH), load)[0].outcome is Outcome.FAIL


@pytest.mark.usefixtures("images")
@pytest.mark.slow
def test_a_write_and_a_pass_over_new_objects_are_not_read_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doing(monkeypatch, QUICK, IDLE)
    monkeypatch.setitem(LOADS, "paper", lambda stage: paper(stage, "altra-multi-write"))
    for load in ("paper", "rados-bench", "published-bench"):
        assert judged(stage_there(tmp_path, MUCH), load)[0].outcome is Outcome.PASS


@pytest.mark.usefixtures("images")
def test_a_lab_watches_no_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    doing(monkeypatch, SLOW, FULL_THREAD)
    made = metered(monkeypatch, {})
    stage = stage_there(tmp_path, MUCH, "local")
    paper(stage, "altra-multi-read")
    assert made == []
    assert not any("busiest" in str(each.data.get("metric")) for each in stage.recorder.events())


@pytest.mark.parametrize(
    ("pattern", "jobs", "read", "wanted"),
    [
        ("randread", 1, 10, 1000),
        ("randrw", 4, 10, 1000),
        ("read", 1, 10, 10),
        ("read", 4, 8000, 1000),
        ("rw", 4, 400, 100),
        ("write", 1, 0, 0),
        ("randwrite", 1, 0, 0),
    ],
)
def test_what_is_read_again_is_the_image_or_its_beginning(pattern: str, jobs: int, read: int, wanted: int) -> None:
    """Four processes that read in sequence all begin at the first byte, and so does the next run."""
    done = FioResult(Done(1, read, 1.0, 1.0, 1.0), NOTHING)
    assert reread_bytes(FioJob("a", "p", "i", pattern, 4096, 1, 1000, jobs=jobs), done) == wanted
