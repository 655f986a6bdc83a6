"""A tuning's effect: three measurements around it, and a difference only where the intervals say so."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.cli.measure_request import MeasureRequest
from cephlab.cli.tune import _saved
from cephlab.cli.world import World
from cephlab.lab.base.errors import CleanupFailed, LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.tunables import effect
from cephlab.lab.tunables.effect import Effect, Row, measure_effect, rows
from cephlab.lab.tunables.options import CephOptions
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Kind, Setting, SettingOutcome
from cephlab.lab.tunables.tune import Target
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.profilefile import SHIPPED
from tests.fake_machine import FakeClient
from tests.fake_provider import FakeProvider, providers

OPTION = Setting(Kind.CEPH, "osd_client_message_cap", "1024", "s", "osd")
CLUSTER = cast("Cluster", object())
KNOWN = {"osd_client_message_cap": "256"}


def cost(mean: float, half: float) -> Interval:
    return Interval(mean, mean - half, mean + half, 5)


def measurement(mean: float, half: float = 1.0) -> Measurement:
    costs = {Role.PRIMARY: {Resource.CPU_USER_S: cost(mean, half)}}
    return Measurement(Demand(Operation("randwrite", 4096), "reef", Arch.X86_64, "key", costs))


@pytest.mark.parametrize(
    ("tuned", "differs"),
    [
        ((13.0, 1.0), False),
        ((8.0, 1.0), False),
        ((10.5, 1.0), False),
        ((14.0, 1.0), True),
        ((6.0, 1.0), True),
        ((12.0, 0.5), False),
        ((14.0, 4.0), False),
    ],
)
def test_a_cost_differs_when_its_interval_is_outside_of_both(tuned: tuple[float, float], differs: bool) -> None:
    row = Row(Role.PRIMARY, Resource.CPU_USER_S, (cost(10.0, 1.0), cost(11.0, 1.0)), cost(*tuned))
    assert row.differs is differs
    assert row.ratio == pytest.approx(tuned[0] / 10.5)


def test_a_cost_between_two_untuned_ones_that_drifted_apart_does_not_differ() -> None:
    row = Row(Role.PRIMARY, Resource.CPU_USER_S, (cost(5.0, 1.0), cost(15.0, 1.0)), cost(10.0, 1.0))
    assert not row.differs


def test_a_cost_that_may_be_nothing_has_no_ratio() -> None:
    for low, ratio in ((-0.5, None), (0.0, None), (0.5, 2 * 10.0 / (1.5 + 11.0))):
        row = Row(Role.MON, Resource.CPU_USER_S, (cost(low + 1.0, 1.0), cost(11.0, 1.0)), cost(10.0, 1.0))
        assert row.ratio == ratio


class Steps:
    """What happens, in order; each measurement sees the options that hold then."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.seen: list[str] = []
        self.said: list[str] = []

    def measure(self) -> Measurement:
        tuned = bool(self.client.database)
        self.seen.append("tuned" if tuned else "untuned")
        return measurement(14.0 if tuned else 10.0)

    def restart(self, cluster: Any) -> None:
        assert cluster is CLUSTER
        self.seen.append("restart")


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[Setting], steps: Steps) -> Effect:
    monkeypatch.setattr(effect, "restart", steps.restart)
    target = Target("one", (), CephOptions(steps.client, ("osd.0",)), Records(tmp_path))
    return measure_effect(CLUSTER, target, "t", settings, steps.measure, steps.said.append)


def test_the_tuned_measurement_lies_between_two_untuned_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(FakeClient(dict(KNOWN)))
    effect = run(tmp_path, monkeypatch, [OPTION], steps)
    assert steps.seen == ["restart", "untuned", "restart", "tuned", "restart", "untuned"]
    [row] = rows(effect)
    assert row.differs
    assert row.ratio == pytest.approx(1.4)
    assert steps.client.database == {}
    assert steps.said == ["restarting the daemons, untuned", "applying t", "reverting t"]
    assert [(change.setting, change.outcome) for change in effect.changes] == [(OPTION, SettingOutcome.DONE)]


def test_an_option_that_daemons_read_at_their_start_has_an_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(FakeClient(dict(KNOWN), fixed={OPTION.key}))
    effect = run(tmp_path, monkeypatch, [OPTION], steps)
    assert [change.outcome for change in effect.changes] == [SettingOutcome.WAITS]


def test_only_what_all_three_measured_is_compared() -> None:
    memory = {Resource.CPU_SYSTEM_S: cost(1.0, 0.5)}
    before, tuned, after = (measurement(mean).demand for mean in (10.0, 14.0, 12.0))
    more = {**tuned.costs[Role.PRIMARY], **memory}
    sides = (
        before,
        replace(tuned, costs={Role.CLIENT: memory, Role.PRIMARY: more}),
        replace(after, costs={**after.costs, Role.CLIENT: memory}),
    )
    made = Effect((), *(replace(measurement(1.0), demand=side) for side in sides))
    untuned = (cost(10.0, 1.0), cost(12.0, 1.0))
    assert list(rows(made)) == [Row(Role.PRIMARY, Resource.CPU_USER_S, untuned, cost(14.0, 1.0))]


def test_monitors_and_osds_that_run_are_restarted_one_after_the_other() -> None:
    steps: list[str] = []
    kinds = (("mon", "n0", True), ("mgr", "n0", True), ("osd", "0", True), ("osd", "1", False))
    cluster = SimpleNamespace(
        daemons={
            f"{kind}.{number}": SimpleNamespace(name=f"{kind}.{number}", kind=kind, alive=lambda runs=runs: runs)
            for kind, number, runs in kinds
        },
        stop=lambda name: steps.append(f"stop {name}"),
        start=lambda name: steps.append(f"start {name}"),
        wait_healthy=lambda: steps.append("wait"),
    )
    effect.restart(cast("Cluster", cluster))
    assert steps == ["stop mon.n0", "start mon.n0", "stop osd.0", "start osd.0", "wait"]


def test_a_tuning_that_changes_nothing_has_no_effect_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(FakeClient({"osd_client_message_cap": "1024"}))
    with pytest.raises(SpecError, match="changes nothing here"):
        run(tmp_path, monkeypatch, [OPTION], steps)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Its measurements fail once a tuning is applied."""
    steps = Steps(FakeClient(dict(KNOWN)))

    def fail() -> Measurement:
        if steps.client.database:
            raise LabBroken("no load")
        return measurement(10.0)

    monkeypatch.setattr(steps, "measure", fail)
    return steps


def test_a_measurement_that_fails_leaves_no_tuning_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Steps
) -> None:
    with pytest.raises(LabBroken, match="no load"):
        run(tmp_path, monkeypatch, [OPTION], failing)
    assert failing.client.database == {}


def test_a_revert_that_fails_does_not_hide_why_it_was_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: Steps
) -> None:
    def refuse(*_: object) -> list[str]:
        raise CleanupFailed(["n0: it is read-only"])

    monkeypatch.setattr(effect, "revert", refuse)
    with pytest.raises(LabBroken, match="no load") as caught:
        run(tmp_path, monkeypatch, [OPTION], failing)
    assert "n0: it is read-only" in caught.value.__notes__[0]


def test_a_tunings_measurements_are_scaled_and_no_prediction_starts_from_them(tmp_path: Path) -> None:
    world = World(Home(tmp_path).ensure(), providers(FakeProvider()))
    shipped = (SHIPPED / "pve-epyc-3n.toml").read_text()
    world.home.profiles.mkdir()
    (world.home.profiles / "this-machine.toml").write_text(shipped.replace('"pve-epyc-3n"', '"this-machine"', 1))
    request = MeasureRequest(
        operations=(("randwrite", 4096),),
        depth=16,
        arch="x86_64",
        replicas=3,
        release="reef",
        lab="auto",
        image_bytes=1 << 20,
        within=0.03,
        budget_s=30.0,
    )
    effect = Effect((), measurement(10.0), measurement(14.0), measurement(10.0))
    files = _saved(world, request, "altra-ceph", effect, None)

    assert [path.stem.rpartition("x3-")[2] for path in files] == ["before", "altra-ceph", "after"]
    assert all(demandfile.load(path)[0].core_speed > 0 for path in files)
    assert find_demands(world.home.demands)[1].startswith("shipped with cephlab")
