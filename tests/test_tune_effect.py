"""A tuning's effect: three measurements around it, and a difference only where the intervals say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from lab.arch import Arch
from lab.cluster import Cluster
from lab.errors import LabBroken, SpecError
from lab.knobs import effect
from lab.knobs.effect import Effect, Row, measure_effect, rows
from lab.knobs.options import CephOptions
from lab.knobs.records import Records
from lab.knobs.settings import Kind, Setting
from lab.knobs.tune import Target
from lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from lab.telemetry.demandfile import Measurement
from tests.fake_machine import FakeClient

OPTION = Setting(Kind.CEPH, "osd_client_message_cap", "1024", "s", "osd")
KNOWN = {"osd_client_message_cap": "256"}


def cost(mean: float, half: float) -> Interval:
    return Interval(mean, mean - half, mean + half, 5)


def measurement(mean: float, half: float = 1.0) -> Measurement:
    costs = {Role.PRIMARY: {Resource.CPU_USER_S: cost(mean, half)}}
    return Measurement(Demand(Operation("randwrite", 4096), "reef", Arch.X86_64, "key", costs))


@pytest.mark.parametrize(
    ("tuned", "differs"),
    [((10.5, 1.0), False), ((14.0, 1.0), True), ((6.0, 1.0), True), ((12.0, 0.5), False), ((14.0, 4.0), False)],
)
def test_a_cost_differs_when_its_interval_is_outside_of_both(tuned: tuple[float, float], differs: bool) -> None:
    row = Row(Role.PRIMARY, Resource.CPU_USER_S, (cost(10.0, 1.0), cost(11.0, 1.0)), cost(*tuned))
    assert row.differs is differs
    assert row.ratio == pytest.approx(tuned[0] / 10.5)


def test_a_cost_between_two_untuned_ones_that_drifted_apart_does_not_differ() -> None:
    row = Row(Role.PRIMARY, Resource.CPU_USER_S, (cost(5.0, 1.0), cost(15.0, 1.0)), cost(10.0, 1.0))
    assert not row.differs


def test_a_cost_that_may_be_nothing_has_no_ratio() -> None:
    row = Row(Role.MON, Resource.CPU_USER_S, (cost(0.5, 1.0), cost(11.0, 1.0)), cost(10.0, 1.0))
    assert row.ratio is None


class Steps:
    """What happens, in order; each measurement sees the options that hold then."""

    def __init__(self, client: FakeClient) -> None:
        self.client = client
        self.seen: list[str] = []

    def measure(self) -> Measurement:
        tuned = bool(self.client.database)
        self.seen.append("tuned" if tuned else "untuned")
        return measurement(14.0 if tuned else 10.0)

    def restart(self, _cluster: Any) -> None:
        self.seen.append("restart")


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[Setting], steps: Steps) -> Effect:
    monkeypatch.setattr(effect, "restart", steps.restart)
    target = Target("one", (), CephOptions(steps.client, ("osd.0",)), Records(tmp_path))
    return measure_effect(cast("Cluster", None), target, "t", settings, steps.measure, lambda _line: None)


def test_the_tuned_measurement_lies_between_two_untuned_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(FakeClient(dict(KNOWN)))
    found = run(tmp_path, monkeypatch, [OPTION], steps)
    assert steps.seen == ["restart", "untuned", "restart", "tuned", "restart", "untuned"]
    [row] = rows(found)
    assert row.differs
    assert row.ratio == pytest.approx(1.4)
    assert steps.client.database == {}


def test_a_tuning_that_changes_nothing_has_no_effect_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(FakeClient({"osd_client_message_cap": "1024"}))
    with pytest.raises(SpecError, match="changes nothing here"):
        run(tmp_path, monkeypatch, [OPTION], steps)


def test_a_measurement_that_fails_leaves_no_tuning_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(FakeClient(dict(KNOWN)))

    def fail() -> Measurement:
        if steps.client.database:
            raise LabBroken("no load")
        return measurement(10.0)

    monkeypatch.setattr(steps, "measure", fail)
    with pytest.raises(LabBroken, match="no load"):
        run(tmp_path, monkeypatch, [OPTION], steps)
    assert steps.client.database == {}
