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
    assert "no power_idle, so at full load" in taken.steps[0]


def test_between_idle_and_loaded_watts_follow_the_utilisation() -> None:
    profile = with_idle(MIXED, 100)
    taken = watts_under(profile, {"altra: CPU": 0.6, "epyc: CPU": 0.2})
    assert taken.watts == pytest.approx(3 * (100 + 125 * 0.6) + 100 + 250 * 0.2)
    assert watts_under(profile, {"altra: CPU": 2.0, "epyc: CPU": 1.0}).watts == 1025


def test_the_architectures_add_up_to_the_whole(made: Prediction) -> None:
    whole, *parts = predicted_work(made, MIXED)
    assert [part.what.partition(",")[0] for part in parts] == ["aarch64", "x86_64"]
    assert sum(part.watts.watts for part in parts) == whole.watts.watts
    assert sum(part.value * part.watts.watts for part in parts) == pytest.approx(made.ops)
    assert (whole.low, whole.high) == pytest.approx([rate / whole.watts.watts for rate in made.trust.around(made.ops)])


def test_a_class_without_watts_is_named() -> None:
    first, *others = MIXED.nodes
    with pytest.raises(SpecError, match=r"power_loaded of altra"):
        watts_under(replace(MIXED, nodes=(replace(first, power_loaded=None), *others)))
