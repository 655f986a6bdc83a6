"""Regression verdicts: what is found, what is left alone, and what nobody can tell."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.compare import Compared, compare, overall, settled
from cephlab.lab.telemetry.demand import CPU as TIMES
from cephlab.lab.telemetry.demand import Demand, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import CALIBRATED, PAIR, Batch, Measurement
from cephlab.lab.telemetry.measure import intervals
from cephlab.lab.telemetry.regression import covariates, paired, ratio

OPERATION = Operation("randwrite", 4096, depth=16)
CPU = {Role.PRIMARY: 300e-6, Role.REPLICA: 400e-6, Role.CLIENT: 60e-6}


def batch(rng: random.Random, *, factor: float = 1.0, mood: float = 1.0, noise: float = 0.02) -> Batch:
    """A batch whose cost follows the mood of the machine: its switches and its reference work show it."""
    mood *= rng.uniform(0.9, 1.1)
    error = rng.gauss(1, noise)
    costs = {
        role: {
            Resource.CPU_USER_S: cpu / 2 * factor * mood * error,
            Resource.CPU_SYSTEM_S: cpu / 2 * factor * mood * error,
            Resource.WIRE_SENT_BYTES: 12000.0 * rng.gauss(1, 0.001),
        }
        for role, cpu in CPU.items()
    }
    return Batch(1000, 2, 16, costs, {"memory": 1e-4 * mood**0.5}, {"switches": 9 * mood, "syncs": 0.5})


def measured(
    seed: int, *, factor: float = 1.0, mood: float = 1.0, noise: float = 0.02, count: int = 14, arch: Arch = Arch.X86_64
) -> Measurement:
    rng = random.Random(seed)
    batches = tuple(batch(rng, factor=factor, mood=mood, noise=noise) for _ in range(count))
    demand = Demand(OPERATION, "reef", arch, "key", intervals(batches))
    return Measurement(demand, batches, conditions={"cpu": "one", "provider": "local", "disks": "memory"})


def outcome(before: Measurement, after: Measurement) -> Outcome:
    return overall(compare([before], [after])).outcome


def test_the_same_passes() -> None:
    assert outcome(measured(1), measured(2)) is Outcome.PASS


def test_against_a_stored_baseline_only_much_is_found_and_named() -> None:
    assert outcome(measured(1), measured(2, factor=1.04)) is Outcome.PASS
    verdict = overall(compare([measured(1)], [measured(2, factor=1.25)]))
    assert verdict.outcome is Outcome.FAIL
    assert "CPU of" in verdict.reason


def test_a_faster_one_passes() -> None:
    assert outcome(measured(1), measured(2, factor=0.8)) is Outcome.PASS


def test_what_switches_and_pace_explain_is_no_regression() -> None:
    assert outcome(measured(1), measured(2, mood=1.04)) is Outcome.PASS
    assert outcome(measured(1), measured(2, mood=1.04, factor=1.3)) is Outcome.FAIL


def test_a_machine_that_became_slower_itself_decides_nothing() -> None:
    assert outcome(measured(1), measured(2, mood=1.3)) is Outcome.INCONCLUSIVE
    assert outcome(measured(1), measured(2, mood=1.3, factor=1.15)) is Outcome.INCONCLUSIVE


def test_noise_is_inconclusive_not_a_pass() -> None:
    assert outcome(measured(1, noise=0.25), measured(2, noise=0.25)) is Outcome.INCONCLUSIVE


def test_other_operations_are_named() -> None:
    other = replace(measured(2), demand=replace(measured(2).demand, operation=Operation("randread", 4096)))
    verdict = overall(compare([measured(1)], [other]))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "did not measure it" in verdict.reason
    assert overall([]).outcome is Outcome.INCONCLUSIVE


def test_architectures_are_shown_beside_each_other() -> None:
    (operation,) = compare([measured(1)], [measured(2, factor=2, arch=Arch.AARCH64)])
    assert operation.verdict.outcome is Outcome.PASS
    assert {change.outcome for change in operation.changes} == {None}


@pytest.mark.parametrize("key", ["cpu", "provider", "disks"])
def test_another_machine_says_nothing(key: str) -> None:
    other = measured(2)
    (operation,) = compare([measured(1)], [replace(other, conditions={**other.conditions, key: "another"})])
    assert operation.verdict.outcome is Outcome.INCONCLUSIVE
    assert "another" in operation.verdict.reason


def test_emulated_cpu_is_not_judged() -> None:
    slow = measured(2)
    (operation,) = compare([measured(1)], [replace(slow, demand=replace(slow.demand, emulated=True))])
    assert operation.verdict.outcome is Outcome.INCONCLUSIVE


def test_a_wire_that_carries_more_is_found() -> None:
    after = measured(2)
    batches = tuple(
        replace(
            batch,
            costs={
                role: {**costs, Resource.WIRE_SENT_BYTES: costs[Resource.WIRE_SENT_BYTES] * 1.2}
                for role, costs in batch.costs.items()
            },
        )
        for batch in after.batches
    )
    verdict = overall(compare([measured(1)], [replace(after, batches=batches)]))
    assert verdict.outcome is Outcome.FAIL
    assert "sent by" in verdict.reason


def costing(measurement: Measurement, resource: Resource, each: float, spread: float = 0.01) -> Measurement:
    """The same, with a primary that also needs this much of a resource for an operation, more or less."""
    rng, role = random.Random(4), Role.PRIMARY
    batches = tuple(
        replace(batch, costs={**batch.costs, role: {**batch.costs[role], resource: each * rng.gauss(1, spread)}})
        for batch in measurement.batches
    )
    return replace(measurement, batches=batches, demand=replace(measurement.demand, costs=intervals(batches)))


def reading(measurement: Measurement, each: float) -> Measurement:
    return costing(measurement, Resource.DEVICE_READS, each)


def test_a_cost_that_begins_is_found() -> None:
    (comparison,) = compare([reading(measured(1), 0.0)], [reading(measured(2), 2.0)])
    assert comparison.verdict.outcome is Outcome.FAIL
    assert "device reads by osd.primary, less than 0.05 counted as that: 0.05 -> 2, +3" in comparison.verdict.reason


@pytest.mark.parametrize(("before", "after"), [(0.01, 0.04), (0.04, 0.051), (2.0, 0.0)])
def test_what_stays_below_the_least_amount_or_ends_is_no_rise(before: float, after: float) -> None:
    assert outcome(reading(measured(1), before), reading(measured(2), after)) is Outcome.PASS


def test_a_cost_that_only_one_side_measured_is_no_rise() -> None:
    assert outcome(measured(1), reading(measured(2), 2.0)) is Outcome.PASS


def test_more_instructions_are_found_where_they_are_counted() -> None:
    before, after = (
        costing(measured(seed, noise=0.2), Resource.INSTRUCTIONS, each, 0.003) for seed, each in ((1, 5e5), (2, 5.5e5))
    )
    verdict = overall(compare([before], [after]))
    assert verdict.outcome is Outcome.FAIL
    assert "instructions by osd.primary" in verdict.reason


def side_by_side(seed: int, factor: float, *, starts: int = 16) -> tuple[Measurement, Measurement]:
    """Two clusters on a machine whose mood moves by tens of percent, both in the same one; a start costs 3 % or so."""
    rng = random.Random(seed)
    sides: tuple[list[Batch], list[Batch]] = ([], [])
    for start in range(starts):
        mood = rng.uniform(0.7, 1.4)
        for side, own in zip(sides, (1.0, factor), strict=True):
            side.append(replace(batch(rng, noise=0), costs=dearer(own * mood * rng.gauss(1, 0.03)), start=start))
    conditions = {"cpu": "one", "provider": "local", "disks": "memory", PAIR: "one and two"}
    first, second = (
        Measurement(
            Demand(OPERATION, "reef", Arch.X86_64, "key", intervals(tuple(side))), tuple(side), conditions=conditions
        )
        for side in sides
    )
    return first, second


def dearer(factor: float) -> dict[Role, dict[Resource, float]]:
    return {role: {Resource.CPU_USER_S: cpu * factor} for role, cpu in CPU.items()}


def test_what_the_machine_does_to_both_of_a_pair_cancels() -> None:
    for seed in range(20):
        assert outcome(*side_by_side(seed, 1.0)) is Outcome.PASS
        assert outcome(*side_by_side(seed, 1.1)) is Outcome.FAIL


def test_a_client_that_is_the_same_shows_what_a_side_was_up_against() -> None:
    first, second = side_by_side(1, 1.0)
    rng = random.Random(5)
    sides = []
    for side, step in ((first, 1.0), (second, 1.1)):
        batches = []
        for each in side.batches:
            mood = rng.uniform(0.6, 1.6)
            factors = {Role.PRIMARY: step * mood, Role.REPLICA: step * mood, Role.CLIENT: mood}
            costs = {role: {Resource.CPU_USER_S: CPU[role] * by * rng.gauss(1, 0.03)} for role, by in factors.items()}
            batches.append(replace(each, costs=costs))
        sides.append(replace(side, batches=tuple(batches)))
    assert outcome(*sides) is Outcome.INCONCLUSIVE
    same = [replace(side, conditions={**side.conditions, CALIBRATED: "yes"}) for side in sides]
    assert outcome(*same) is Outcome.FAIL
    assert "relative to the client" in overall(compare([same[0]], [same[1]])).reason
    assert settled(same[0].batches, same[1].batches, True) == "CPU of the OSDs is settled: fail"


def test_a_pair_ends_early_only_when_it_is_clear() -> None:
    same, slow = side_by_side(1, 1.0), side_by_side(1, 1.4)
    assert settled(slow[0].batches[:6], slow[1].batches[:6], False) == "CPU of the OSDs is settled: fail"
    assert settled(same[0].batches[:3], same[1].batches[:3], False) is None
    assert settled(slow[0].batches[:1], slow[1].batches[:1], False) is None


def test_a_role_alone_fails_or_is_only_shown() -> None:
    (operation,) = compare(*([side] for side in side_by_side(1, 1.0, starts=3)))
    outcomes = {change.what: change.outcome for change in operation.changes}
    assert outcomes["CPU of osd.primary"] is None
    assert outcomes["CPU of OSDs"] is not None


@pytest.mark.parametrize(("dearer_by", "ends"), [(1.08, None), (1.16, Outcome.FAIL)])
def test_a_role_alone_must_be_dearer_by_as_much_as_is_to_be_found(dearer_by: float, ends: Outcome | None) -> None:
    first, second = side_by_side(1, 1.0)
    rng = random.Random(7)
    sides = []
    for side, step in ((first, 1.0), (second, dearer_by)):
        batches = []
        for each in side.batches:
            factors = {Role.PRIMARY: 1.0, Role.REPLICA: step, Role.CLIENT: 1.0}
            costs = {role: {Resource.CPU_USER_S: CPU[role] * by * rng.gauss(1, 0.01)} for role, by in factors.items()}
            batches.append(replace(each, costs=costs))
        sides.append(replace(side, batches=tuple(batches)))
    (operation,) = compare([sides[0]], [sides[1]])
    assert {change.what: change.outcome for change in operation.changes}["CPU of osd.replica"] is ends


def with_cpu(measurement: Measurement, role: Role, cpu_s: float) -> Measurement:
    """The same, with a role that needs this much CPU time for an operation, within a percent."""
    rng = random.Random(6)
    batches = tuple(
        replace(batch, costs={**batch.costs, role: {Resource.CPU_USER_S: cpu_s * rng.gauss(1, 0.01)}})
        for batch in measurement.batches
    )
    return replace(measurement, batches=batches, demand=replace(measurement.demand, costs=intervals(batches)))


def cpu_of(name: str, before: Measurement, after: Measurement) -> Outcome | None:
    (operation,) = compare([before], [after])
    return {change.what: change.outcome for change in operation.changes}[f"CPU of {name}"]


@pytest.mark.parametrize(("times", "ends"), [(1.0, None), (1.5, Outcome.FAIL)])
def test_a_gateway_is_judged_as_the_other_daemons_are(times: float, ends: Outcome | None) -> None:
    sides = (with_cpu(measured(1), Role.GATEWAY, 500e-6), with_cpu(measured(2), Role.GATEWAY, times * 500e-6))
    assert cpu_of("gateway", *sides) is ends
    assert outcome(*sides) is (ends or Outcome.PASS)


@pytest.mark.parametrize(
    ("before_s", "after_s", "ends"), [(20e-6, 30e-6, None), (20e-6, 200e-6, Outcome.FAIL), (60e-6, 90e-6, Outcome.FAIL)]
)
def test_a_role_counts_once_it_needs_a_twentieth_of_the_cpu_on_one_side(
    before_s: float, after_s: float, ends: Outcome | None
) -> None:
    sides = (with_cpu(measured(1), Role.CLIENT, before_s), with_cpu(measured(2), Role.CLIENT, after_s))
    assert cpu_of("client", *sides) is ends


@pytest.mark.parametrize("side", [0, 1])
def test_a_batch_that_cost_less_than_rest_leaves_the_cpu_open_and_does_not_hide_it(side: int) -> None:
    sides = [measured(1), measured(2)]
    idle = {role: {**costs, **dict.fromkeys(TIMES, -1e-06)} for role, costs in sides[side].batches[0].costs.items()}
    sides[side] = replace(sides[side], batches=(replace(sides[side].batches[0], costs=idle), *sides[side].batches[1:]))
    verdict = overall(compare([sides[0]], [sides[1]]))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "CPU of OSDs: " in verdict.reason


def test_measurements_of_different_pairs_are_no_pair() -> None:
    first, second = side_by_side(1, 1.1)
    other = replace(second, conditions={**second.conditions, PAIR: "one and three"})
    assert outcome(first, other) is Outcome.INCONCLUSIVE


def test_one_start_of_a_pair_has_no_interval() -> None:
    change = paired([1.0], [1.1])
    assert change.value == pytest.approx(1.1)
    assert (change.low, change.high) == (0.0, math.inf)


def test_what_wake_ups_explain_is_taken_out_of_a_pair_and_a_step_is_not() -> None:
    rng = random.Random(4)
    moods = [rng.gauss(0, 0.2) for _ in range(16)]
    after = [1.1 * math.exp(0.9 * mood + rng.gauss(0, 0.02)) for mood in moods]
    beside = ({"switches": [0.0] * 16}, {"switches": moods})
    plain, explained = paired([1.0] * 16, after), paired([1.0] * 16, after, beside)
    assert explained.value == pytest.approx(1.1, rel=0.03)
    assert explained.high - explained.low < (plain.high - plain.low) / 3
    assert explained.low < 1.1 < explained.high


def test_covariates_need_every_batch() -> None:
    rng = random.Random(1)
    batches = [batch(rng), replace(batch(rng), reference={})]
    assert set(covariates(batches)) == {"switches", "syncs"}


def test_the_ratio_has_the_right_interval_without_covariates() -> None:
    change = ratio([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])
    assert (change.value, change.low, change.high) == pytest.approx((2.0, 2.0, 2.0))
    assert ratio([1.0], [2.0]).low == 0.0


def test_the_spread_between_deployments_widens() -> None:
    narrow = ratio([1.0, 1.01, 0.99], [1.0, 1.01, 0.99])
    wide = ratio([1.0, 1.01, 0.99], [1.0, 1.01, 0.99], spread=0.05)
    assert wide.high > narrow.high > 1


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.2, 1)])
def test_the_command_ends_as_its_verdict(tmp_path: Path, factor: float, code: int) -> None:
    demandfile.save(tmp_path / "a.json", [measured(1)])
    demandfile.save(tmp_path / "b.json", [measured(2, factor=factor)])
    ended = CliRunner().invoke(app, ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert ended.exit_code == code, ended.output
    assert "CPU of OSDs" in ended.output


def test_files_that_share_nothing_are_told_in_a_sentence(tmp_path: Path) -> None:
    here = measured(1)
    other = replace(here, demand=replace(here.demand, operation=replace(here.demand.operation, depth=99)))
    demandfile.save(tmp_path / "a.json", [here])
    demandfile.save(tmp_path / "b.json", [other])
    ended = CliRunner().invoke(app, ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "error: the two have no operation in common" in ended.stderr
    assert f"{tmp_path / 'b.json'}: " in ended.stderr


def test_a_file_that_is_none_is_refused() -> None:
    assert CliRunner().invoke(app, ["compare", "no-such.json", "no-such.json"]).exit_code == 2


def test_a_side_that_cannot_be_read_is_told_as_it_is_and_where_to_get_one(tmp_path: Path) -> None:
    loop, other = tmp_path / "loop.json", tmp_path / "other.json"
    loop.symlink_to(loop)
    other.write_text("[]")
    for side, why in ((loop, "Too many levels of symbolic links"), (other, "kind: got 'list', wanted")):
        ended = CliRunner().invoke(app, ["compare", str(side), str(other)])
        assert (ended.exit_code, why in ended.stderr) == (2, True)
        assert "hint: make one with `cephlab measure`" in ended.stderr


def compared(operations: list[Compared]) -> list[str]:
    return [change.what for operation in operations for change in operation.changes]


def test_every_role_that_works_is_shown() -> None:
    names = compared(compare([measured(1)], [measured(2)]))
    assert {"CPU of OSDs", "CPU of osd.primary", "CPU of client", "sent by osd.primary"} <= set(names)


def test_means_without_batches_are_told_in_a_sentence(tmp_path: Path) -> None:
    demandfile.save(tmp_path / "a.json", [replace(measured(1), batches=())])
    ended = CliRunner().invoke(app, ["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "error: no cost can be compared" in ended.stderr
    assert f"{tmp_path / 'a.json'}: 0 batches" in ended.stderr


def test_an_operation_of_one_side_alone_is_a_line_and_no_empty_table(tmp_path: Path) -> None:
    here = measured(1)
    other = replace(here, demand=replace(here.demand, operation=replace(here.demand.operation, depth=99)))
    demandfile.save(tmp_path / "a.json", [here])
    demandfile.save(tmp_path / "b.json", [measured(2), other])
    shown = CliRunner().invoke(app, ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]).stdout
    assert shown.count("cost of one operation") == 1
    assert "at depth 99 on 3 copies: the first side did not measure it" in shown
