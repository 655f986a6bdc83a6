"""A load for watts as a whole: machines whose watts rise with it, on a clock that only the load and the idle time move.

Machine n0 takes 100 W without a load, 150 W in the ramp and 200 W after it; n1 takes half.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Event, History
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.bmc import Bmc
from cephlab.lab.telemetry.loadcpu import LoadCpu
from cephlab.lab.telemetry.power import Reading, Scope, Source
from cephlab.lab.telemetry.statistics import interval_of
from cephlab.lab.telemetry.watts import WattMeter
from cephlab.lab.workloads.fio import NOTHING, Done, FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.block import watts
from cephlab.suites.block.watts import SCENARIOS, Limits, draw, limits_of, operations_of, require_watts
from cephlab.tuning.profilefile import SHIPPED
from tests.suites.test_bias import FULL_THREAD, IDLE, metered

RAMP_S = LOOK_S = 5.0
ARCHS = {"n0": Arch.AARCH64, "n1": Arch.X86_64}
CLIENTS = ("client", "client1", "client2")
RATES = {CLIENTS[0]: (3000.0, 30.0, 60), CLIENTS[1]: (2000.0, 40.0, 50), CLIENTS[2]: (1000.0, 0.0, 70)}
"""Writes a second of each client, their deviation, and how many samples that is of."""


class Machines:
    """The clock, the machines and the OSDs. They are looked at every LOOK_S."""

    def __init__(self) -> None:
        self.now_s, self.load_s = 1000.0, 0.0
        self.loaded_s: float | None = None
        self.meter = Meter({name: cast("Host", Machine(self, name)) for name in ARCHS})
        self.jobs: list[tuple[str, FioJob]] = []
        self.metered: list[object] = []
        self.silent = False

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        ends_s = self.now_s + seconds
        while self.now_s < ends_s:
            self.now_s = min(ends_s, self.now_s + LOOK_S)
            if self.meter.looks:
                self.meter.look()

    def watts(self, node: str) -> float:
        since_s = -1.0 if self.loaded_s is None else self.now_s - self.loaded_s
        watts = 100.0 if since_s <= 0 else 150.0 if since_s < RAMP_S else 200.0
        noise = 1.0 if int(self.now_s) % 2 else -1.0  # a sensor that always says the same is taken for a broken one
        return (watts + noise) * (1.0 if node == "n0" else 0.5)

    def meter_of(self, cluster: Cluster, bmcs: tuple[Bmc, ...]) -> WattMeter:
        self.metered += [cluster, *bmcs]
        return self.meter

    def run_jobs(self, cluster: Cluster, jobs: list[tuple[str, FioJob]]) -> list[FioResult]:
        assert {node for node, _ in jobs} <= cluster.hosts.keys()
        self.jobs, self.loaded_s = jobs, self.now_s
        self.sleep(RAMP_S + jobs[0][1].runtime_s)
        self.load_s = self.now_s - self.loaded_s
        return [FioResult(NOTHING, Done(1000, 1, 1.0, iops, 0.01, 0, stddev, n)) for iops, stddev, n in RATES.values()]

    def tell(self, osd: str, _command: str) -> Mapping[str, Any]:
        """osd.0 does 300 writes and 700 replicas a second, osd.1 half."""
        share = 1.0 if osd == "osd.0" else 0.5
        return {"osd": {"op": 50 + 300 * share * self.load_s, "subop": 7 + 700 * share * self.load_s}}


class Machine:
    """A host whose power meter says what the machine takes."""

    def __init__(self, machines: Machines, name: str) -> None:
        self.machines, self.name, self.arch = machines, name, ARCHS[name]

    def run(self, _argv: list[str], *, timeout_s: float) -> Any:
        sensors = {} if self.machines.silent else {"power_meter/power1": self.machines.watts(self.name)}
        said = {"at_s": self.machines.now_s, "sensors": sensors, "rapl": {}, "unread": []}
        return SimpleNamespace(stdout=json.dumps(said))


class Meter(WattMeter):
    """Looks where the clock is moved, not beside it."""

    looks = False

    @contextmanager
    def looking(self, every_s: float = 1.0) -> Iterator[None]:
        self.look()
        self.looks = True
        yield
        self.looks = False


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Where the watts are read, the images written, and the time taken."""
    made = Machines()

    def written(stage: Stage, count: int) -> AbstractContextManager[list[BlockImage]]:
        return nullcontext(
            [BlockImage(f"pool of {stage.recorder.scenario}", f"i{number}", 1) for number in range(count)]
        )

    monkeypatch.setattr(clock, "SYSTEM", made)
    monkeypatch.setattr(watts, "time", SimpleNamespace(time=made.monotonic))
    monkeypatch.setattr(watts, "meter_of", made.meter_of)
    monkeypatch.setattr(watts, "written", written)
    monkeypatch.setattr(watts, "run_jobs", made.run_jobs)
    return made


REQUIREMENT = """
[[requirements]]
name = "writes"
op = "randwrite"
bs = "4k"
clients = 3
depth = 8
protection = "replicated:2"
per_watt_at_least = "VALUE ops/s/W"
"""


def stage_of(
    machines: Machines, home: Path, *, per_watt: int | None = None, lab: str = "ssh", tier: Tier = Tier.QUICK
) -> Stage:
    """A stage on two machines and three of clients, with a profile that requires so much work per watt, or nothing."""
    shipped = (SHIPPED / "pve-epyc-3n.toml").read_text().partition("[[requirements]]")[0]
    required = REQUIREMENT.replace("VALUE", str(per_watt)) if per_watt is not None else ""
    (home / "pair.toml").write_text(shipped.replace('"pve-epyc-3n"', '"pair"', 1) + required)
    osds = {"osd.0": ARCHS["n0"], "osd.1": ARCHS["n1"]}
    cluster = SimpleNamespace(
        run=SimpleNamespace(home=SimpleNamespace(profiles=home)),
        provider=provider(lab),
        client=machines,
        client_name="client.x",
        hosts={name: SimpleNamespace(name=name, emulated=False) for name in CLIENTS},
        spec=SimpleNamespace(nodes=[SimpleNamespace(name=name, has_daemons=False) for name in CLIENTS]),
        osd_ids=lambda: [0, 1],
        daemon=lambda name: SimpleNamespace(host=SimpleNamespace(arch=osds[name])),
    )
    recorder = History().recorder("block.watts")
    return Stage(cast("Cluster", cluster), recorder, Random(1), Path(), profile="pair", tier=tier)


def figures_of(stage: Stage) -> dict[str, Mapping[str, Any]]:
    return {event.data["metric"]: event.data for event in events_of(stage, "figure")}


def events_of(stage: Stage, kind: str) -> list[Event]:
    return [event for event in stage.recorder.events() if event.kind == kind]


def test_each_machine_is_measured_idle_and_under_load_without_its_ramp(machines: Machines, tmp_path: Path) -> None:
    stage = stage_of(machines, tmp_path)
    watts.run(stage)
    values = {name: data["value"] for name, data in figures_of(stage).items()}
    for name, full_w in (("n0", 200), ("n1", 100)):
        assert values[f"{name}: machine by sensors, idle"] == pytest.approx(full_w / 2, abs=0.2)
        assert values[f"{name}: machine by sensors, loaded"] == pytest.approx(full_w, abs=0.2)
        assert values[f"{name}: machine by sensors, above idle"] == pytest.approx(full_w / 2, abs=0.2)
    [kept] = events_of(stage, "watts")
    assert [(each["node"], each["seconds"]) for each in kept.data["energies"]] == [("n0", 30.0), ("n1", 30.0)]
    assert kept.data["unread"] == []
    assert machines.metered == [stage.cluster]


def test_work_per_watt_is_that_of_all_clients_and_of_the_osds_of_each_architecture(
    machines: Machines, tmp_path: Path
) -> None:
    stage = stage_of(machines, tmp_path)
    watts.run(stage)
    figures = figures_of(stage)
    assert figures["watts of all machines by sensors"]["value"] == pytest.approx(300, rel=1e-3)
    whole = figures["work per watt by sensors"]
    assert whole["value"] == pytest.approx(6000 / 300, rel=1e-3)
    rate = interval_of(6000.0, 50.0, 50)  # deviations of 30, 40 and 0 are 50 together; the fewest samples count
    assert (whole["low"], whole["high"]) == pytest.approx((rate.low / (300 * 1.03), rate.high / (300 * 0.97)), rel=1e-3)
    for arch in ("aarch64", "x86_64"):  # 1000 operations a second for 200 W, and 500 for 100 W
        beside = figures[f"{arch}: operations of OSDs per watt by sensors"]
        ends = (5 / 1.03, 5 / 0.97)
        assert (beside["value"], beside["low"], beside["high"]) == pytest.approx((5, *ends), rel=1e-3)


@pytest.mark.parametrize(("tier", "idle_s", "load_s"), [(Tier.QUICK, 20, 30), (Tier.FULL, 120, 300)])
def test_each_client_writes_small_blocks_after_the_idle_time(
    machines: Machines, tmp_path: Path, tier: Tier, idle_s: float, load_s: float
) -> None:
    stage = stage_of(machines, tmp_path, tier=tier)
    watts.run(stage)
    assert [(node, job.target) for node, job in machines.jobs] == list(zip(CLIENTS, ("i0", "i1", "i2"), strict=True))
    shapes = {(job.pattern, job.block_bytes, job.depth, job.runtime_s) for _, job in machines.jobs}
    assert shapes == {("randwrite", 4096, 8, load_s)}
    assert {job.more["ramp_time"] for _, job in machines.jobs} == {f"{RAMP_S:g}"}
    [drawn] = events_of(stage, "series")
    assert drawn.data["marks"] == {"idle": 0.0, "load": idle_s}


def test_watts_are_drawn_over_time_with_a_panel_of_each_source_and_scope() -> None:
    recorder = History().recorder("block.watts")
    kinds = ((Source.BMC, Scope.MACHINE, "a"), (Source.BMC, Scope.MACHINE, "b"), (Source.RAPL, Scope.CPU, "a"))
    readings = [Reading(at_s, at_s, *kind) for at_s in (100.0, 102.0) for kind in kinds]
    draw(recorder, readings, 100.0, 101.5)
    [event] = recorder.events()
    points = [[0.0, 100.0], [2.0, 102.0]]
    assert event.data["lines"] == [
        {"panel": "machine by bmc, W", "label": "a", "points": points},
        {"panel": "machine by bmc, W", "label": "b", "points": points},
        {"panel": "CPU by rapl, W", "label": "a", "points": points},
    ]
    assert (event.data["axis"], event.data["marks"]) == ("s", {"idle": 0.0, "load": 1.5})


@pytest.mark.parametrize(
    ("per_watt", "cpu", "outcome"),
    [
        (10_000, IDLE, Outcome.FAIL),
        (10_000, FULL_THREAD, Outcome.INCONCLUSIVE),
        (None, FULL_THREAD, Outcome.PASS),
    ],
)
def test_the_clients_are_watched_where_the_load_is_judged(
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    per_watt: int | None,
    cpu: LoadCpu,
    outcome: Outcome,
) -> None:
    made = metered(monkeypatch, dict.fromkeys(CLIENTS, cpu))
    stage = stage_of(machines, tmp_path, per_watt=per_watt)
    watts.run(stage)
    assert figures(stage.recorder.events()).outcome is outcome
    assert bool(made) is (per_watt is not None)
    doubted = [data for data in figures_of(stage).values() if "the cluster may be faster" in data["why"]]
    assert bool(doubted) is (outcome is Outcome.INCONCLUSIVE)
    busiest = "writes: busiest client, share of one CPU"
    assert (busiest in figures_of(stage)) is (per_watt is not None)


def test_requirements_are_those_of_the_runs_profile_on_the_profiles_own_machines(
    machines: Machines, tmp_path: Path
) -> None:
    assert limits_of(stage_of(machines, tmp_path, per_watt=7)) == Limits(per_watt=7)
    assert limits_of(stage_of(machines, tmp_path)) == Limits()
    assert limits_of(stage_of(machines, tmp_path, per_watt=7, lab="local")) == Limits()
    nameless = replace(stage_of(machines, tmp_path, per_watt=7), profile="")
    assert limits_of(nameless) == Limits()


def test_the_operations_of_the_osds_of_one_architecture_add_up(machines: Machines, tmp_path: Path) -> None:
    cluster = stage_of(machines, tmp_path).cluster
    assert operations_of(cluster) == {"aarch64": 57.0, "x86_64": 57.0}
    alike = SimpleNamespace(
        **{**vars(cluster), "daemon": lambda _: SimpleNamespace(host=SimpleNamespace(arch=Arch.X86_64))}
    )
    assert operations_of(cast("Cluster", alike)) == {"x86_64": 114.0}
    new = SimpleNamespace(**{**vars(cluster), "client": SimpleNamespace(tell=lambda *_: {})})
    assert operations_of(cast("Cluster", new)) == {"aarch64": 0.0, "x86_64": 0.0}


def test_a_controller_that_the_user_named_is_read_too(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bmc = Bmc(node="n0", protocol="ipmi", address="192.0.2.1", user="u", password_file="/nonexistent")
    monkeypatch.setattr(watts, "named_bmcs", lambda: (bmc,))
    watts.run(stage_of(machines, tmp_path))
    assert bmc in machines.metered


def test_machines_that_report_no_power_get_no_load(machines: Machines, tmp_path: Path) -> None:
    machines.silent = True
    with pytest.raises(Unavailable, match="no machine reports its power"):
        watts.run(stage_of(machines, tmp_path))
    assert machines.jobs == []


def test_the_scenario_records_what_it_says_that_it_sees(machines: Machines, tmp_path: Path) -> None:
    [scenario] = SCENARIOS
    stage = stage_of(machines, tmp_path)
    scenario.run(stage)
    assert scenario.name == stage.recorder.scenario
    recorded = [event.data.get("metric", event.data.get("what", "")) for event in stage.recorder.events()]
    assert scenario.sees
    assert [pattern for pattern in scenario.sees if not any(re.fullmatch(pattern, name) for name in recorded)] == []


def test_two_looks_tell_whether_any_machine_reports_its_power(machines: Machines) -> None:
    """A counter of energy says its watts only at the second look, some time after the first."""
    meter = SimpleNamespace(readings=[], unread={"n1: no sensor", "n0: no sensor"}, looks=[])
    meter.look = lambda: meter.looks.append(machines.now_s)
    with pytest.raises(Unavailable, match="no machine reports its power") as refused:
        require_watts(cast("WattMeter", meter))
    assert meter.looks == [1000.0, 1001.0]
    assert refused.value.detail == "n0: no sensor\nn1: no sensor"
    meter.readings.append("one")
    require_watts(cast("WattMeter", meter))
    with pytest.raises(Unavailable) as refused:
        require_watts(WattMeter({}))
    assert refused.value.detail == "no power sensor, no energy counter, no BMC named"
