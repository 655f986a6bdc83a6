"""The suite of scale models: which there are, what nodes are held to, and when one is red."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import Event, History, data_of
from cephlab.lab.scenario.scenario import Stage, run_scenario
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.spec.clusterspec import DiskLimits
from cephlab.lab.telemetry.demand import Interval
from cephlab.suites.scale import PROFILES, SCENARIOS
from cephlab.suites.scale.machines import HeldNode, ScaledTopology, Spent, from_memory, held_nodes, in_use
from cephlab.suites.scale.model import WITHIN, Modelled, Wanted, note, scenario_for, wanted_of
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.model import predict
from cephlab.tuning.profilefile import load_hardware
from cephlab.tuning.scalemodel import kind_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "storage-3n.toml"
BOUND_BY = {"scale-cpu": "CPU", "scale-disk": "disk", "scale-network": "network"}


def model(name: str) -> Wanted:
    hardware = load_hardware(PROFILES / f"{name}.toml")
    wanted = wanted_of(hardware, hardware.requirements[0])
    assert isinstance(wanted, Wanted)
    return wanted


@pytest.mark.parametrize("name", BOUND_BY)
def test_each_shipped_cluster_is_bound_by_what_its_name_says(name: str, tmp_path: Path) -> None:
    wanted = model(name)
    demands, _ = find_demands(tmp_path)
    ((_, shape),) = wanted.requirement.shapes
    assert kind_of(predict(demands, wanted.hardware.profile, shape).bottleneck) == BOUND_BY[name]
    assert f"scale.model[profile={name},load={wanted.requirement.name}]" in {each.name for each in SCENARIOS}


def test_nodes_share_the_cpus_by_their_points_and_hold_their_share_of_the_rest() -> None:
    wanted = model("scale-disk")
    topology = next(each.topology for each in SCENARIOS if "scale-disk" in each.name)
    assert isinstance(topology, ScaledTopology)
    assert sum(topology.parts) == pytest.approx(1, abs=1e-5)
    spec = topology.spec("reef")
    assert [node.cores for node in spec.nodes if node.osds] == list(topology.cores)
    assert all(node.cores is None for node in spec.nodes if not node.osds)
    node, *_ = held_nodes(wanted.stands, topology.cores, 0.01)
    disks = wanted.stands[0].machine.data_disks[0]
    assert disks.seq_write is not None
    assert node.disk.write_bytes_s == round(0.01 * 4 * disks.seq_write.value)
    assert node.sent_bytes == round(0.01 * wanted.stands[0].machine.bandwidth.value)


def test_what_is_in_use_is_a_share_of_what_a_node_may_use() -> None:
    node = HeldNode("n0", 0.2, DiskLimits(100, 100, 1 << 20, 1 << 20), 1000)
    after = Spent(1.0, {"bluestore.write_big_blobs": 250.0, "bluestore.write_big_bytes": 5.0 * (1 << 20)}, 9000)
    used = in_use(node, Spent(0.0, {}, 0), after, 10.0)
    assert used == {"CPU": pytest.approx(0.5), "disk": pytest.approx(0.5), "network": pytest.approx(0.9)}


def test_what_is_read_from_memory_is_a_share_of_all_nodes_reads() -> None:
    def read(hit: float, missed: float) -> Spent:
        return Spent(0.0, {"bluestore.buffer_hit_bytes": hit, "bluestore.buffer_miss_bytes": missed}, 0)

    assert from_memory([read(50, 90), read(0, 10)], [read(100, 90), read(100, 60)]) == pytest.approx(0.75)
    assert from_memory([read(50, 90)], [read(50, 90)]) == 0.0


def noted(
    home: Path, times: float, uses: Sequence[dict[str, float]], *, name: str = "scale-disk", idle: float = 0.1
) -> Sequence[Event]:
    """What is recorded where so many times what is predicted was measured, give or take 2 %."""
    wanted = model(name)
    demands, origin = find_demands(home)
    ((_, shape),) = wanted.requirement.shapes
    prediction = predict(demands, wanted.hardware.profile, shape)
    recorder = History().recorder("scale.model")
    rate = times * 0.01 * prediction.ops
    stage: Any = Stage(None, recorder, None, home)  # type: ignore[arg-type]
    recorder.witness("operations", got=1000, least=100)
    interval = Interval(rate, rate * 0.98, rate * 1.02, 10)
    note(stage, prediction, Modelled(0.01, 6.0, interval, idle, uses, WITHIN), origin)
    return recorder.events()


def judged(tmp_path: Path, times: float, use: dict[str, float]) -> Verdict:
    return CHECKS["figures"](noted(tmp_path, times, [use] * 3))


FULL_DISK = {"CPU": 0.4, "disk": 0.95, "network": 0.2}


@pytest.mark.parametrize(
    ("times", "use", "outcome"),
    [
        (1.0, FULL_DISK, Outcome.PASS),
        (1.25, FULL_DISK, Outcome.PASS),
        (1.31, FULL_DISK, Outcome.INCONCLUSIVE),
        (1.5, FULL_DISK, Outcome.FAIL),
        (0.6, FULL_DISK, Outcome.FAIL),
        (1.0, {"CPU": 0.99, "disk": 0.9, "network": 0.2}, Outcome.FAIL),
        (1.0, {"CPU": 0.4, "disk": 0.6, "network": 0.2}, Outcome.INCONCLUSIVE),
    ],
)
def test_the_rate_and_the_bottleneck_decide(
    times: float, use: dict[str, float], outcome: Outcome, tmp_path: Path
) -> None:
    assert judged(tmp_path, times, use).outcome is outcome


def test_what_the_busiest_node_does_beyond_the_mean_is_no_fault_of_the_model(tmp_path: Path) -> None:
    figure, *_ = data_of(noted(tmp_path, 0.8, [{**FULL_DISK, "disk": share} for share in (0.9, 0.7, 0.65)]), "figure")
    assert figure["value"] == pytest.approx(0.8 * 0.9 / 0.75)


def test_what_osds_do_without_a_load_is_taken_off_their_cpus_alone(tmp_path: Path) -> None:
    values = []
    for name, use in (("scale-cpu", {"CPU": 0.95, "disk": 0.1, "network": 0.1}), ("scale-disk", FULL_DISK)):
        figure, *_ = data_of(noted(tmp_path, 1.0, [use], name=name, idle=0.2), "figure")
        values.append(figure["value"])
    assert values == pytest.approx([1 / 0.8, 1.0])


def test_a_limit_that_is_not_in_force_is_red(tmp_path: Path) -> None:
    """Three times as much gets through, and something else is full."""
    assert judged(tmp_path, 3.0, {"CPU": 0.97, "disk": 2.9, "network": 0.5}).outcome is Outcome.FAIL


def test_a_requirement_without_a_scale_model_is_skipped_with_its_reason() -> None:
    hardware = load_hardware(EXAMPLE)
    by_name = {each.name: each for each in hardware.requirements}
    assert wanted_of(hardware, by_name["vm-mix"]) == "a mix has no single bottleneck to compare"
    assert isinstance(wanted_of(hardware, by_name["backup"]), Wanted)
    scenario = scenario_for(hardware, by_name["room"])
    assert (scenario.name, scenario.topology) == ("scale.model[profile=storage-3n,load=room]", NOWHERE)
    stage = Stage(None, History().recorder(scenario.name), None, Path())  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="has no scale model") as refused:
        run_scenario(scenario, stage)
    assert refused.value.detail == "a requirement of kind capacity is predicted only"
    lone = replace(hardware, profile=replace(hardware.profile, nodes=(replace(hardware.profile.nodes[0], count=2),)))
    assert "no equal part" in str(wanted_of(lone, by_name["backup"]))
