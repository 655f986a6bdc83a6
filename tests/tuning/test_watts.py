"""Watts of a predicted load: full, idle and in between, one architecture beside the other, and what is missing."""

from dataclasses import replace

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profile import Figure, Profile
from cephlab.tuning.profilefile import SHIPPED, load_hardware
from cephlab.tuning.units import Measure
from cephlab.tuning.watts import predicted_work, watts_under
from cephlab.tuning.workload import Shape

MIXED = load_hardware(SHIPPED / "altra-3n-epyc-1n.toml").profile


def with_idle(profile: Profile, watts: float) -> Profile:
    """The profile with a figure of idle machines."""
    idle = Figure(watts, Measure.POWER, "made up")
    return replace(profile, nodes=tuple(replace(machine, power_idle=idle) for machine in profile.nodes))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Prediction:
    demands, _ = find_demands(tmp_path_factory.mktemp("none"))
    return predict(demands, MIXED, Shape("randwrite", 4096, clients=12, depth=32))


def test_without_a_figure_of_idle_machines_they_count_as_loaded() -> None:
    taken = watts_under(MIXED, {"altra: CPU": 0.1, "epyc: CPU": 0.1})
    assert taken.watts == 3 * 225 + 350
    source = MIXED.nodes[0].power_loaded.source if MIXED.nodes[0].power_loaded else ""
    assert taken.steps[0] == f"altra: 3 x 225 W = 675 W; no power_idle, so at full load [{source}]"
    [loaded, _] = watts_under(with_idle(MIXED, 100)).steps
    assert loaded == f"altra: 3 x 225 W = 675 W [{source}]", "asked for full load, so no figure is missing"


def test_between_idle_and_loaded_watts_follow_the_utilisation() -> None:
    profile = with_idle(MIXED, 100)
    taken = watts_under(profile, {"altra: CPU": 0.6, "epyc: CPU": 0.2})
    assert taken.watts == pytest.approx(3 * (100 + 125 * 0.6) + 100 + 250 * 0.2)
    assert watts_under(profile, {"altra: CPU": 2.0, "epyc: CPU": 1.0}).watts == 1025


def test_the_architectures_add_up_to_the_whole(made: Prediction) -> None:
    whole, *parts = predicted_work(made, MIXED)
    assert [part.what for part in parts] == ["aarch64, 75 % of the rate", "x86_64, 25 % of the rate"]
    assert sum(part.watts.watts for part in parts) == whole.watts.watts
    assert sum(part.value * part.watts.watts for part in parts) == pytest.approx(made.ops)
    assert (whole.low, whole.high) == pytest.approx([rate / whole.watts.watts for rate in made.trust.around(made.ops)])


def test_the_work_is_that_for_the_watts_at_the_predicted_utilisation(made: Prediction) -> None:
    profile = with_idle(MIXED, 100)
    whole, *parts = predicted_work(made, profile)
    assert whole.watts.watts == watts_under(profile, made.utilisation).watts < watts_under(profile).watts
    assert sum(part.watts.watts for part in parts) == pytest.approx(whole.watts.watts)


def test_an_architectures_part_of_the_rate_is_that_of_all_its_disks(made: Prediction) -> None:
    altra, epyc = MIXED.nodes
    small = replace(epyc, name="small", count=2, disks=(replace(epyc.disks[0], count=1),))
    mixed = replace(MIXED, nodes=(altra, epyc, small))
    whole, _, x86 = predicted_work(made, mixed)
    of_x86 = epyc.weight + 2 * small.weight
    share = of_x86 / (3 * altra.weight + of_x86)
    assert small.weight < epyc.weight
    assert x86.value * x86.watts.watts == pytest.approx(share * whole.value * whole.watts.watts)


def test_one_architecture_alone_is_not_told_twice(made: Prediction) -> None:
    [whole] = predicted_work(made, replace(MIXED, nodes=MIXED.nodes[:1]))
    assert whole.what == "all nodes"


def test_a_class_without_watts_is_named() -> None:
    first, *others = MIXED.nodes
    with pytest.raises(SpecError, match=r"power_loaded of altra"):
        watts_under(replace(MIXED, nodes=(replace(first, power_loaded=None), *others)))
