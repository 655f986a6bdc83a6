"""What a run on a profile is expected to do: which profile is taken, its lines, and its limits on its own machines."""

from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.series import Line
from cephlab.suites.block import expected
from cephlab.suites.block.expected import LATENCY, RATE, Expected, bound, expect, named_of, rate_and_latency
from cephlab.suites.block.stand import NO_LIMIT
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.limits import Limit, latency_limit, throughput_limit
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.workload import Shape
from tests.suites.test_block_suite import stage_in, this_machine

SHAPES = [Shape("randread", 4096, 1, 1), Shape("randwrite", 4096, 1, 8), Shape("randread", 4096, 1, 16)]
ALTRA = "ampere-altra-4n"


def made(home: Path, name: str) -> tuple[tuple[Prediction, ...], str]:
    demands, origin = find_demands(home / "demands")
    return tuple(predict(demands, find_profile(name, home / "profiles"), shape) for shape in SHAPES), origin


def test_two_lines_are_drawn_over_what_was_varied() -> None:
    assert rate_and_latency("measured", [1, 2], [10.0, 20.0], [0.1, 0.2]) == [
        Line("operations per second", "measured", ((1.0, 10.0), (2.0, 20.0))),
        Line("mean latency, seconds", "measured", ((1.0, 0.1), (2.0, 0.2))),
    ]
    [rate, _] = rate_and_latency("measured", [1], [10.0], [0.1])
    assert isinstance(rate.points[0][0], float)


def test_nothing_expected_has_no_line_no_words_and_no_limit() -> None:
    nothing = Expected()
    assert (nothing.predictions, nothing.words, nothing.limits) == ((), "", ())
    assert nothing.lines([]) == []
    assert nothing.bounds(0) == (NO_LIMIT, NO_LIMIT)


def test_operations_are_named_once() -> None:
    assert named_of(SHAPES) == "randread, randwrite"


def test_a_limit_is_a_bound_of_the_profile() -> None:
    assert bound(Limit("x", "s", "so", low=1.0, high=2.0)) == Bound("so", 1.0, 2.0, (), basis=Basis.PROFILE)


def test_without_a_named_profile_that_of_this_machine_draws_lines_and_sets_no_limits(tmp_path: Path) -> None:
    this_machine(tmp_path)
    predictions, origin = made(tmp_path, "this-machine")
    expectation = expect(stage_in(tmp_path), SHAPES)
    assert expectation == Expected(predictions, f"predicted for this-machine from demands {origin}")
    rates, latencies = [each.ops for each in predictions], [each.latency_s for each in predictions]
    assert expectation.lines([1, 8, 16]) == rate_and_latency("predicted", [1, 8, 16], rates, latencies)
    assert [line.panel for line in expectation.lines([1, 8, 16])] == [RATE, LATENCY]


@pytest.mark.parametrize(("lab", "at_home"), [("ssh", True), ("local", False)])
def test_a_named_profile_sets_limits_where_its_own_machines_run(tmp_path: Path, lab: str, at_home: bool) -> None:
    predictions, origin = made(tmp_path, ALTRA)
    limits = [
        (throughput_limit(each, each.trust.factor), latency_limit(each, each.trust.factor)) for each in predictions
    ]
    expectation = expect(stage_in(tmp_path, lab, ALTRA), SHAPES)
    assert expectation == Expected(
        predictions, f"predicted for {ALTRA} from demands {origin}", tuple(limits) if at_home else ()
    )
    rate, latency = limits[1]
    wanted = (
        Bound(rate.why, rate.low, None, tuple(rate.derivation.lines()), basis=Basis.PROFILE),
        Bound(latency.why, None, latency.high, tuple(latency.derivation.lines()), basis=Basis.PROFILE),
    )
    assert expectation.bounds(1) == (wanted if at_home else (NO_LIMIT, NO_LIMIT))


@pytest.mark.parametrize(("lab", "profile"), [("ssh", ALTRA), ("local", ALTRA), ("ssh", "")])
def test_what_the_model_cannot_say_is_said_and_missed_on_the_profiles_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: str, profile: str
) -> None:
    def refuse(_home: Path) -> Any:
        raise SpecError("no measured demand fits", "measured: randwrite")

    this_machine(tmp_path)
    monkeypatch.setattr(expected, "find_demands", refuse)
    stage = stage_in(tmp_path, lab, profile)
    assert expect(stage, SHAPES) == Expected(words="not predicted: no measured demand fits")
    missed = {
        "what": "limits for randread, randwrite on the profile's machines, which the model cannot give: "
        "no measured demand fits",
        "got": 0,
        "least": 1,
    }
    at_home = lab == "ssh" and profile == ALTRA
    assert [event.data for event in stage.recorder.events()] == ([missed] if at_home else [])
