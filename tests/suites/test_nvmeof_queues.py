"""What the suite says of rates that rise and are flat, that fall, and that change from minute to minute."""

from collections.abc import Sequence

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability
from cephlab.suites.nvmeof import queues
from cephlab.suites.nvmeof.queues import AXES, Axis, Setting, Turn

PACE = (1.0, 2.1, 0.6, 1.4)
"""Of the machine, round by round."""
DEPTH = next(axis for axis in AXES if axis.of == "in_flight")
QUEUES = next(axis for axis in AXES if axis.of == "queues")


def verdict(axis: Axis, means: Sequence[float], noise: Sequence[Sequence[float]] = (), share: float = 0.97) -> Outcome:
    """Of these rates, times the machine's pace in each round, times noise of each value in each round."""
    recorder = History().recorder("nvmeof.topic")
    wobble = noise or [[1.0, 1.02, 0.99, 1.01], [1.01, 1.0, 1.0, 0.98]] * 2
    rates = {
        value: [mean * pace * each for pace, each in zip(PACE, wobble[place], strict=True)]
        for place, (value, mean) in enumerate(zip(axis.values, means, strict=True))
    }
    queues.judge(recorder, axis, rates, ("the gateway", share))
    return CHECKS["figures"](recorder.events()).outcome


@pytest.mark.parametrize(
    ("axis", "means", "outcome"),
    [
        (DEPTH, [50, 150, 300, 305], Outcome.PASS),
        (DEPTH, [300, 300, 300, 300], Outcome.FAIL),  # every request waits for the one before
        (DEPTH, [50, 150, 300, 150], Outcome.FAIL),  # more in flight is less
        (DEPTH, [50, 150, 300, 600], Outcome.FAIL),  # a ceiling that is none
        (QUEUES, [300, 300, 300], Outcome.PASS),  # there at once
        (QUEUES, [200, 290, 300], Outcome.PASS),
        (QUEUES, [300, 150, 150], Outcome.FAIL),
    ],
)
def test_rates_are_held_to_their_shape(axis: Axis, means: Sequence[float], outcome: Outcome) -> None:
    assert verdict(axis, means) is outcome


def test_what_changes_within_a_round_leaves_no_verdict() -> None:
    noise = [[1.0, 3.0, 0.4, 1.2], [2.5, 0.7, 1.0, 0.3], [1.0, 1.0, 1.0, 1.0]]
    assert verdict(QUEUES, [300, 300, 300], noise) is Outcome.INCONCLUSIVE


def test_a_ceiling_without_a_name_leaves_no_verdict_and_may_still_be_passed() -> None:
    assert verdict(DEPTH, [50, 150, 300, 305], share=0.4) is Outcome.INCONCLUSIVE
    assert verdict(DEPTH, [50, 150, 300, 600], share=0.4) is Outcome.INCONCLUSIVE


def test_the_ceiling_is_the_machine_that_was_fullest_on_average() -> None:
    turns = [Turn(9.0, 9, {"a": 0.9, "b": 0.5}), Turn(9.0, 9, {"a": 0.1, "b": 0.7})]
    name, share = queues.fullest(turns)
    assert name == "b"
    assert share == pytest.approx(0.6)


def test_measuring_ends_once_every_ratio_is_known() -> None:
    quiet = {value: [100.0 * pace for pace in PACE] for value in QUEUES.values}
    assert queues.narrow(QUEUES, quiet)
    assert not queues.narrow(QUEUES, {**quiet, 4: [100.0, 210.0, 60.0, 70.0]})


def test_an_axis_changes_one_thing_and_there_are_cpus_for_all_of_it() -> None:
    nodes = {node.name: node for node in queues.SCENARIOS[0].topology.spec(DEFAULT_RELEASE).nodes}
    assert [nodes[name].cores for name in (queues.INITIATOR, queues.GATEWAY)] == [queues.CPUS] * 2
    for axis in AXES:
        for value, setting in axis.settings.items():
            changed = {name for name, had in vars(Setting()).items() if getattr(setting, name) != had}
            assert changed <= {axis.of}
            assert getattr(setting, axis.of) == value
            assert max(setting.queues, setting.cores) <= queues.CPUS
    assert all(Capability.FABRICS in scenario.needs for scenario in queues.SCENARIOS)
