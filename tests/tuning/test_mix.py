"""Mixed reads and writes, pinned OSDs, and how figures change the machines of their publication."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import mean, variance

import pytest
from scipy.special import stdtrit

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.model import predict
from cephlab.tuning.references import Machines, load_reference, of_profile
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile

READS = demand("randread", primary_s=0.001)
WRITES = demand("randwrite", primary_s=0.004, replicas=1)
FIGURE = """
title = "A paper"
profile = "{profile}"
release = "{release}"

[[figures]]
name = "writes"
kind = "{kind}"
value = {value}
unit = "{unit}"
where = "page 1"
load = {{ op = "randwrite", bs = "4k", clients = 50, depth = 20 }}
"""
FITTING = {"profile": "test", "release": "reef", "kind": "throughput", "value": "5", "unit": "IOPS"}


def test_a_mix_keeps_each_resource_busy_by_the_sum_of_its_parts() -> None:
    nodes = profile(machine(count=1, cores=1, disk=(disks(),)))
    made = predict([READS, WRITES], nodes, Shape("randrw75", 4096, 100, 10, replicas=1))

    # 0.75 x 1 ms + 0.25 x 4 ms of one core.
    assert made.ceiling == pytest.approx(1 / 0.00175)
    assert made.ops == pytest.approx(1 / 0.00175, rel=0.01)
    assert made.bottleneck == "n: CPU"


MEASURED_US = {
    "randrw70": (217, 156, 173, 140, 210),
    "randread": (48, 40, 71, 72, 66),
    "randwrite": (342, 293, 352, 299, 461),
}
"""CPU of all OSDs for an operation of 4 KiB, batch by batch, one operation after the other: docs/measured/model.md."""


def test_a_measured_mix_costs_what_its_measured_parts_do() -> None:
    """The ratio's 95 % interval holds 1: Student's t of log means, with the freedom of the smallest sample."""
    means = {name: mean(costs) for name, costs in MEASURED_US.items()}
    parts = [demand(name, primary_s=means[name] * 1e-6, replicas=1) for name in ("randread", "randwrite")]
    summed_us = (
        1e6
        / predict(parts, profile(machine(count=1, cores=1, disk=(disks(),))), Shape("randrw70", 4096, 99, 9, 1)).ceiling
    )
    spread = {name: variance(costs) / len(costs) for name, costs in MEASURED_US.items()}
    of_sum = 0.7**2 * spread["randread"] + 0.3**2 * spread["randwrite"]
    ratio = means["randrw70"] / summed_us
    margin = float(stdtrit(4, 0.975)) * math.sqrt(spread["randrw70"] / means["randrw70"] ** 2 + of_sum / summed_us**2)

    assert ratio == pytest.approx(1.22, abs=0.005)
    assert ratio / math.exp(margin) < 1 < ratio * math.exp(margin)


def test_a_mix_alone_takes_the_mean_of_its_parts() -> None:
    nodes = profile(machine(count=1, cores=1, disk=(disks(),)))
    read, write, mix = (
        predict([READS, WRITES], nodes, Shape(name, 4096, 1, 1, replicas=1)).unloaded_s
        for name in ("randread", "randwrite", "randrw50")
    )
    assert mix == pytest.approx((read + write) / 2)


@pytest.mark.parametrize("operation", ["randrw", "randrw5", "randrw100", "bananas"])
def test_an_operation_that_is_none_is_refused(operation: str) -> None:
    with pytest.raises(SpecError, match="the model does not know the operation") as refused:
        Shape(operation, 4096, 1, 1)
    assert "randrw70" in refused.value.detail


def test_pinned_osds_have_their_threads_alone() -> None:
    node = machine(count=1, cores=10, threads_per_core=2, disk=(disks(),))
    pinned = profile(replace(node, osd_threads=5))
    made = predict([WRITES], pinned, Shape("randwrite", 4096, 100, 10, replicas=1))

    # Five threads on five cores, each alone there: a core's speed over 1.25.
    assert made.bottleneck == "n: CPU of its OSDs"
    assert made.ceiling == pytest.approx(5 / 1.25 / 0.004)
    loose = predict([WRITES], profile(node), Shape("randwrite", 4096, 100, 10, replicas=1))
    assert loose.ceiling == pytest.approx(10 / 0.004)


def test_more_threads_than_cores_are_no_more_than_the_machine() -> None:
    node = machine(count=1, cores=10, threads_per_core=2, disk=(disks(),))
    made = predict([WRITES], profile(replace(node, osd_threads=20)), Shape("randwrite", 4096, 100, 10, replicas=1))

    assert made.ceiling == pytest.approx(10 / 0.004)


def test_a_figure_says_how_its_machines_differ() -> None:
    changed = Machines(nodes=5, disks=2, osd_threads=7, clients=3).of(profile(machine(disk=(disks(count=6),))))

    assert (changed.node_count, changed.osds) == (5, 10)
    assert changed.nodes[0].osd_threads == 7
    assert changed.clients[0].count == 3
    assert Machines().of(changed) == changed


def _paper(folder: Path, **changes: str) -> Path:
    path = folder / "paper.toml"
    path.write_text(FIGURE.format(**{**FITTING, **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"unit": "GB/s"}, "unit: got 'GB/s', wanted for throughput: one of IOPS, ops/s"),
        ({"unit": "bananas"}, "unit: got 'bananas'"),
        ({"kind": "bandwidth"}, "unit: got 'IOPS', wanted for bandwidth: one of B/s"),
        ({"kind": "cpu"}, "wanted for cpu: share"),
        ({"value": "0"}, "value: got 0, wanted: above 0"),
        ({"release": "main"}, "got 'main', wanted: one of argonaut"),
        ({"release": "reeef"}, "got 'reeef'"),
    ],
)
def test_a_publication_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_reference(_paper(tmp_path, **changes))
    assert said in f"{refused.value.what} {refused.value.detail}"


def test_a_figure_may_have_any_unit_of_its_kind(tmp_path: Path) -> None:
    assert load_reference(_paper(tmp_path, unit="kIOPS")).figures[0].scale == 1000
    assert load_reference(_paper(tmp_path, unit="GB/s", kind="bandwidth")).figures[0].scale == 1e9
    assert load_reference(_paper(tmp_path, unit="ms", kind="latency")).figures[0].scale == 1e-3


def test_the_path_of_a_profile_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    assert load_reference(_paper(tmp_path, profile="sub/mine.toml")).profile == str(tmp_path / "sub/mine.toml")
    assert load_reference(_paper(tmp_path, profile="mine.toml")).profile == str(tmp_path / "mine.toml")
    assert load_reference(_paper(tmp_path, profile="/abs/mine.toml")).profile == "/abs/mine.toml"
    assert load_reference(_paper(tmp_path)).profile == "test"


def test_the_figures_of_a_profile_are_those_of_its_own_machines(tmp_path: Path) -> None:
    text = FIGURE.format(**FITTING)
    figure = text[text.index("[[figures]]") :]
    path = tmp_path / "paper.toml"
    path.write_text(text + figure + "on = { nodes = 2 }\n" + figure + 'profile = "other"\n')
    reference = load_reference(path)

    assert [len(paper.figures) for paper in of_profile([reference], "test")] == [1]
    assert [len(paper.figures) for paper in of_profile([reference], "other")] == [1]
    assert of_profile([reference], "third") == ()
