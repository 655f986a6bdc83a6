"""The block suite's own rules, without a cluster: floors, baselines, the papers' settings, scales."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lab.arch import Arch
from lab.checks.regression import judge, regression
from lab.checks.verdict import Outcome
from lab.history import Event, History
from lab.home import Home
from lab.scenario import Stage, Tier
from lab.telemetry import baselines
from lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from lab.telemetry.demandfile import Measurement
from lab.telemetry.knee import knee
from suites.block import SCENARIOS
from suites.block.costs import floors
from suites.block.depth import predictions
from suites.block.papers import SETTINGS
from suites.block.scale import Scale, scale
from suites.block.stand import IMAGE_BYTES, note
from tuning.profilefile import SHIPPED, find_profile
from tuning.workload import Shape


def demand(sent: float, *, image: str = "one", name: str = "randwrite") -> Demand:
    def exact(value: float) -> Interval:
        return Interval(value, value * 0.99, value * 1.01, 9)

    disk = {Resource.DEVICE_WRITE_BYTES: exact(9000.0), Resource.WIRE_SENT_BYTES: exact(sent)}
    costs = {Role.PRIMARY: disk, Role.REPLICA: disk, Role.CLIENT: {Resource.WIRE_RECEIVED_BYTES: exact(sent)}}
    return Demand(Operation(name, 4096), "reef", Arch.X86_64, image, costs)


def judged(found: Demand) -> Outcome:
    recorder = History().recorder("block.cost")
    recorder.witness("operations", got=1000, least=100)
    floors(recorder, found)
    return regression(recorder.events()).outcome


def test_a_write_that_reaches_its_replicas_passes() -> None:
    assert judged(demand(12400)) is Outcome.PASS


def test_a_write_that_sends_too_little_fails() -> None:
    assert judged(demand(4400)) is Outcome.FAIL


def test_a_read_that_brings_nothing_fails() -> None:
    assert judged(demand(4200, name="randread")) is Outcome.PASS
    assert judged(demand(300, name="randread")) is Outcome.FAIL


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (1.10, 1.01, 1.2, Outcome.FAIL),
        (1.00, 0.9, 1.09, Outcome.PASS),
        (1.08, 0.99, 1.15, Outcome.INCONCLUSIVE),
        (1.065, 1.06, 1.07, Outcome.FAIL),
        (1.04, 1.02, 1.06, Outcome.PASS),
        (1.04, 1.01, 1.12, Outcome.INCONCLUSIVE),
    ],
)
def test_changes_are_judged_by_interval(value: float, low: float, high: float, outcome: Outcome) -> None:
    assert judge(value, low, high) is outcome


def test_a_change_decides_beside_the_figures() -> None:
    recorder = History().recorder("block.cost")
    recorder.witness("operations", got=1000, least=100)
    note(recorder, "CPU", 1e-3, "s")
    assert regression(recorder.events()).outcome is Outcome.PASS
    recorder.record("change", what="CPU of OSDs", value=1.2, low=1.15, high=1.25)
    found = regression(recorder.events())
    assert found.outcome is Outcome.FAIL
    assert "CPU of OSDs: +20.0%" in found.reason


def test_nothing_measured_is_inconclusive() -> None:
    assert regression([Event("block.cost", 0.0, "began", {})]).outcome is Outcome.INCONCLUSIVE


def test_a_baseline_is_found_by_its_image_before_others(tmp_path: Path) -> None:
    home = Home(tmp_path)
    wanted = demand(1.0, image="wanted")
    assert baselines.find(home, wanted) is None
    baselines.store(home, Measurement(demand(2.0, image="earlier")))
    assert baselines.find(home, wanted) == Measurement(demand(2.0, image="earlier"))
    baselines.store(home, Measurement(wanted))
    assert baselines.find(home, wanted) == Measurement(wanted)
    assert baselines.find(home, demand(1.0, name="read")) is None


def test_a_new_baseline_leaves_other_operations(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for one in (demand(1.0), demand(2.0, name="read"), demand(3.0)):
        baselines.store(home, Measurement(one))
    assert baselines.find(home, demand(0.0)) == Measurement(demand(3.0))
    assert baselines.find(home, demand(0.0, name="read")) == Measurement(demand(2.0, name="read"))


def test_the_knee_is_where_the_curve_bends() -> None:
    assert knee([1, 2, 4, 8, 16, 32, 64], [100, 190, 350, 560, 640, 650, 655]) == 16
    assert knee([1, 2, 3, 4], [1, 2, 3, 4]) is None
    assert knee([1, 2], [1, 2]) is None


def test_scenarios_have_names_of_their_own() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names))
    assert all(name.startswith("block.") for name in names)


def test_the_papers_settings_are_the_full_tiers() -> None:
    tiers = {scenario.name: scenario.tier for scenario in SCENARIOS}
    assert all(tiers[f"block.paper[setting={setting.name}]"] is Tier.FULL for setting in SETTINGS)
    assert {(s.block_bytes, s.depth) for s in SETTINGS if s.name.startswith("altra-multi")} == {(4096, 8), (4096, 16)}


def test_published_times_are_scaled_and_never_too_short() -> None:
    assert Scale().seconds(600) == 6.0
    assert Scale().seconds(60) == 3.0


def stage_in(home: Path) -> Stage:
    return cast("Stage", SimpleNamespace(cluster=SimpleNamespace(run=SimpleNamespace(directory=home / "runs" / "r1"))))


SHAPES = [Shape("randread", 4096, 1, depth) for depth in (1, 16)]


def test_the_models_line_lies_beside_the_measured_points(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    shipped = (SHIPPED / "pve-epyc-3n.toml").read_text()
    (tmp_path / "profiles/this-machine.toml").write_text(shipped.replace('"pve-epyc-3n"', '"this-machine"', 1))
    lines, words = predictions(stage_in(tmp_path), SHAPES)
    assert [line.label for line in lines] == ["predicted", "predicted"]
    assert [x for x, _ in lines[0].points] == [1, 16]
    assert lines[0].points[1][1] > lines[0].points[0][1] > 0
    assert "predicted from demands" in words


def test_without_a_profile_of_this_machine_nothing_is_predicted(tmp_path: Path) -> None:
    lines, words = predictions(stage_in(tmp_path), SHAPES)
    assert lines == []
    assert "this-machine" in words


def test_published_sizes_and_times_are_run_where_the_machines_are(tmp_path: Path) -> None:
    altra = scale(find_profile("ampere-altra-4n", tmp_path))
    assert altra.image_bytes(200 << 30, 1) == 200 << 30
    assert altra.seconds(300) == 300
    assert Scale().image_bytes(200 << 30, 3) == IMAGE_BYTES


def test_what_has_no_room_is_cut_to_whole_objects() -> None:
    small = Scale(capacity_bytes=100e9)
    found = small.image_bytes(200 << 30, 2)
    assert found == int(100e9 * 0.05 / 3 / 2) >> 22 << 22
    assert small.words(200 << 30, 2, 600) == f"{found >> 20} of 204800 MiB, 6 of 600 s"
