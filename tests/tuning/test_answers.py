"""Answers to requirements, worked out by hand on small clusters: each figure, both ends, what limits it, and why."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning import placement
from cephlab.tuning.held import (
    OBJECT_RATIOS,
    Answer,
    held,
    load_factor,
    refuse_inexpressible,
    trust_in,
    words,
)
from cephlab.tuning.limits import recovery_factor
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import Hardware, find_profile
from cephlab.tuning.requirements import (
    LoadRequirement,
    PowerRequirement,
)
from cephlab.tuning.trust import trust_in as trusted_load
from cephlab.tuning.units import Measure
from cephlab.tuning.watts import watts_under
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, machine, profile
from tests.tuning.test_answers_of_data import DISK, TRUST, cluster, lost, objects, plugged, room, with_db

DEMANDS = (
    demand("randwrite", primary_s=1e-4, replicas_s=1e-4),
    demand("randread", primary_s=5e-5),
    demand("randwrite", primary_s=1e-4, replicas_s=1e-4, ec=(2, 1)),
)


# An answer


@pytest.mark.parametrize(
    ("least", "most", "outcome"),
    [
        (1.0, None, Outcome.PASS),
        (1.1, None, Outcome.INCONCLUSIVE),
        (3.0, None, Outcome.INCONCLUSIVE),
        (3.1, None, Outcome.FAIL),
        (None, 3.0, Outcome.PASS),
        (None, 2.9, Outcome.INCONCLUSIVE),
        (None, 1.0, Outcome.INCONCLUSIVE),
        (None, 0.9, Outcome.FAIL),
        (1.0, 3.0, Outcome.PASS),
        (None, None, Outcome.PASS),
    ],
)
def test_an_interval_that_touches_its_limit_is_inside(
    least: float | None, most: float | None, outcome: Outcome
) -> None:
    assert Answer("x", Measure.OPS, 2.0, 1.0, 3.0, "y", least=least, most=most).outcome is outcome


def test_an_answer_without_more_has_no_limit_no_steps_and_no_doubts() -> None:
    made = Answer("x", Measure.OPS, 2.0, 1.0, 3.0, "y")
    assert (made.least, made.most, made.steps, made.doubts, made.no_interval) == (None, None, (), (), "")


@pytest.mark.parametrize(
    ("given", "required", "predicted"),
    [
        ({"least": 7.0}, "at least 7 ops/s", "2 ops/s (1 ops/s to 3 ops/s)"),
        ({"most": 7.0}, "at most 7 ops/s", "2 ops/s (1 ops/s to 3 ops/s)"),
        ({"low": 2.0, "high": 2.0}, "at most 0 ops/s", "2 ops/s"),
        ({"low": 2.0, "high": 2.0, "no_interval": "declared"}, "at most 0 ops/s", "2 ops/s (declared)"),
        ({"high": math.inf, "no_interval": "declared"}, "at most 0 ops/s", "2 ops/s (1 ops/s to infinity)"),
    ],
)
def test_an_answer_is_written_with_its_limit_and_its_ends(given: Any, required: str, predicted: str) -> None:
    made = replace(Answer("x", Measure.OPS, 2.0, 1.0, 3.0, "y"), **given)
    assert (made.required, made.predicted) == (required, predicted)


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (1.234e15, Measure.BYTES, "1,234 TB"),
        (4.56e9, Measure.BYTES, "0.00456 TB"),
        (12.345e15, Measure.BYTES, "12.35 PB"),
        (9999.4e12, Measure.BYTES, "9,999 TB"),
        (9999.6e12, Measure.BYTES, "10 PB"),
        (9999.6e15, Measure.BYTES, "10 EB"),
        (9e27, Measure.BYTES, "9,000,000,000 EB"),
        (119.0, Measure.TIME, "119 s"),
        (120.0, Measure.TIME, "2 min"),
        (7199.0, Measure.TIME, "120 min"),
        (7200.0, Measure.TIME, "2 h"),
        (1234 * 3600.0, Measure.TIME, "1,234 h"),
        (7200.0, Measure.POWER, "7,200 W"),
        (math.inf, Measure.TIME, "infinity"),
    ],
)
def test_a_figure_has_the_usual_unit_for_its_size(value: float, kind: Measure, shown: str) -> None:
    assert words(value, kind) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(35_983.0, "10 h"), (3600.0 * 2.5, "2.5 h"), (60.0 * 99, "99 min"), (121.5, "2.02 min")]
)
def test_hours_have_sixty_minutes_of_sixty_seconds(seconds: float, shown: str) -> None:
    assert words(seconds, Measure.TIME) == shown


def test_the_only_published_number_of_objects_is_close_to_the_formula() -> None:
    """275 GB for each of 318 OSDs hold 10 kB of 8.7 billion objects; published are 8.8."""
    assert OBJECT_RATIOS == (0.99375,)


def test_a_model_is_trusted_by_its_errors_against_publications() -> None:
    def find(name: str) -> Profile:
        return find_profile(name, Path("/nonexistent"))

    made = trust_in((), find)
    assert made.recovery == recovery_factor((), find)
    assert made.objects == 1.25


# Loads


def load(**given: Any) -> LoadRequirement:
    plain = {"name": "x", "op": "randwrite", "bs": "4k", "clients": 4, "depth": 8, "protection": "replicated:3"}
    return LoadRequirement.model_validate({**plain, **given})


def made_for(wanted: LoadRequirement, on: Profile, demands: tuple[Demand, ...] = DEMANDS) -> list[Prediction]:
    return [predict(demands, on, shape) for _, shape in wanted.shapes]


def doubts_of(*made: Prediction) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for each in made for line in (*each.trust.outside, *each.unknown)))


def test_every_limit_of_a_load_is_answered_from_one_prediction() -> None:
    wanted = load(at_least="1 ops/s", mean_at_most="2 s", p99_at_most="3 s", per_watt_at_least="4 ops/s/W")
    [made] = made_for(wanted, cluster())
    factor = trusted_load(cluster(), wanted.shapes[0][1]).factor
    assert factor > 1.5
    ops, mean_s = made.ops, 32 / made.ops
    taken = watts_under(cluster(), made.utilisation)
    assert 200 < taken.watts < 400
    steps = tuple(made.derivation.lines())
    powered = (*steps, f"power, by the model: {taken.watts:,.0f} W", *taken.steps)
    common: dict[str, Any] = {"limited_by": "n: disk d", "steps": steps, "doubts": doubts_of(made)}
    rate, mean, p99, work = held(wanted, cluster(), DEMANDS, TRUST)
    assert rate == Answer("throughput", Measure.OPS, ops, ops / factor, ops * factor, least=1.0, **common)
    ends = mean_s / factor, mean_s * factor
    assert mean == Answer("mean latency", Measure.TIME, mean_s, *ends, most=2.0, **common)
    ends = mean_s / factor, mean_s * factor * 100
    assert p99 == Answer("99th percentile (predicted: the mean)", Measure.TIME, mean_s, *ends, most=3.0, **common)
    each = ops / taken.watts
    ends = each / factor, each * factor
    assert work == Answer("work per watt", Measure.WORK, each, *ends, least=4.0, **{**common, "steps": powered})


def test_a_rate_in_bytes_is_that_of_whole_blocks() -> None:
    [answer] = held(load(at_least="5 MB/s"), cluster(), DEMANDS, TRUST)
    [in_ops] = held(load(at_least="5 ops/s"), cluster(), DEMANDS, TRUST)
    assert (answer.kind, answer.least) == (Measure.RATE, 5e6)
    assert answer.value == pytest.approx(in_ops.value * 4096)
    assert answer.high == pytest.approx(in_ops.high * 4096)


def test_operations_of_a_mix_take_turns_and_the_one_with_most_of_the_time_limits_it() -> None:
    """Of ten operations the six reads take 48 us and the four writes 72."""
    wanted = load(op="", mix={"randread": 0.6, "randwrite": 0.4}, at_least="1 ops/s", per_watt_at_least="1 ops/s/W")
    reads, writes = made_for(wanted, cluster())
    rate, work = held(wanted, cluster(), DEMANDS, TRUST)
    ops = 1 / (0.6 / reads.ops + 0.4 / writes.ops)
    assert rate.value == pytest.approx(ops)
    assert rate.limited_by == writes.bottleneck != reads.bottleneck
    mixed = f"mix, taking turns: 1 / (0.6 / {reads.ops:,.0f} + 0.4 / {writes.ops:,.0f}) = {ops:,.0f} ops/s"
    assert rate.steps == (*reads.derivation.lines(), *writes.derivation.lines(), mixed)
    assert rate.doubts == doubts_of(reads, writes)
    # Utilisation is of one operation, so a mix counts with all machines at full load.
    assert work.value == pytest.approx(ops / 400)
    assert work.steps == (*rate.steps, "power, by the model: 400 W", "n: 4 x 100 W = 400 W [test]")


@pytest.mark.parametrize(
    ("given", "shapes"),
    [
        ({}, [("randwrite", 4096)]),
        ({"op": "", "mix": {"randread": 0.5, "randwrite": 0.5}}, [("randrw70", 4096)]),
        ({"op": "", "mix": {"get": 0.5, "put": 0.5}}, [("get", 4096), ("put", 4096)]),
        ({"op": "", "mix": {"put": 0.5, "get": 0.5}}, [("get", 4096), ("put", 4096)]),
        ({"op": "", "mix": {"randread": 0.5, "seq": 0.5}}, [("randread", 4096), ("seq", 4096)]),
    ],
)
def test_blocks_read_and_written_are_trusted_as_a_mix_and_the_rest_as_its_worst(
    given: dict[str, Any], shapes: list[tuple[str, int]]
) -> None:
    factors = [trusted_load(cluster(), Shape(op, size, 4, 8, 3)).factor for op, size in shapes]
    assert load_factor(load(at_least="1 ops/s", **given), cluster()) == max(factors)


@pytest.mark.parametrize(
    ("limit", "low", "high"),
    [("at_least", 0.0, None), ("mean_at_most", None, math.inf), ("per_watt_at_least", 0.0, None)],
)
def test_too_few_hosts_open_the_end_that_decides(limit: str, low: float | None, high: float | None) -> None:
    """Four disks on two machines: the model places three copies, CRUSH's default rule does not."""
    few = profile(plugged(machine(count=2, disk=(replace(DISK, count=2),)), 100, 50))
    amount = {"at_least": "1 ops/s", "mean_at_most": "9 s", "per_watt_at_least": "1 ops/s/W"}[limit]
    wanted = load(**{limit: amount})
    [made] = made_for(wanted, few)
    [answer] = held(wanted, few, DEMANDS, TRUST)
    factor = load_factor(wanted, few)
    assert answer.low == pytest.approx(answer.value / factor if low is None else low)
    assert answer.high == pytest.approx(answer.value * factor if high is None else high)
    assert answer.limited_by == "hosts: 2 for 3 shards"
    unplaced = placement.doubts(few, wanted.shapes[0][1])
    assert answer.doubts == tuple(dict.fromkeys((*unplaced, *doubts_of(made))))
    assert answer.steps[: len(made.derivation.lines())] == tuple(made.derivation.lines())


# Power


def test_power_is_what_was_declared_for_all_nodes() -> None:
    wanted = PowerRequirement.model_validate({"name": "x", "kind": "power", "at_most": "500 W"})
    assert held(wanted, cluster(4), (), TRUST) == (
        Answer(
            metric="power of all nodes under load",
            kind=Measure.POWER,
            value=400.0,
            low=400.0,
            high=400.0,
            limited_by="nodes",
            most=500.0,
            steps=("power: all 4 nodes at full load", "n: 4 x 100 W = 400 W [test]"),
            no_interval="declared watts, no interval",
        ),
    )


# All requirements of a file


def test_the_first_requirement_without_words_in_the_model_is_refused_by_its_number() -> None:
    on = profile(with_db(plugged(machine(count=4, disk=(DISK,)), 100, 50), 9))
    power = PowerRequirement.model_validate({"name": "x", "kind": "power", "at_most": "500 W"})
    sound = (load(at_least="1 ops/s"), lost(), room(), objects(), power)
    refuse_inexpressible(Hardware(Path("/it.toml"), on, sound), DEMANDS)
    wide = lost().model_copy(
        update={"name": "wide", "protection": load(protection="ec:8+3", p99_at_most="1 s").protection}
    )
    with pytest.raises(SpecError) as caught:
        refuse_inexpressible(Hardware(Path("/it.toml"), on, (*sound, wide)), DEMANDS)
    assert caught.value.what == "/it.toml: the model cannot express the requirement wide"
    assert caught.value.detail.startswith("requirements.5: EC 8+3 cannot be placed on test: got 11 shards")
    assert caught.value.hint == "choose a protection that fits, with --replicas or --ec"
    without = profile(machine(disk=(DISK,)))
    with pytest.raises(SpecError) as caught:
        refuse_inexpressible(Hardware(Path("/it.toml"), without, (objects(),)), DEMANDS)
    assert caught.value.hint == "docs/requirements.md says what it can express"
