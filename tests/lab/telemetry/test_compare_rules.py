"""What may explain a difference of costs, how certain a rise must be, and what is said of each cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from cephlab.lab.checks.regression import FOUND, RULE, STORED
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.compare import ALONE, CostChange, compare, few, overall, settled
from cephlab.lab.telemetry.demand import Demand, Resource, Role
from cephlab.lab.telemetry.demandfile import CALIBRATED, PAIR, Batch, Measurement
from cephlab.lab.telemetry.measure import intervals
from cephlab.lab.telemetry.regression import Ratio
from tests.lab.telemetry.test_compare import OPERATION, measured

Costs = Mapping[tuple[Role, Resource], Sequence[float]]

UNEVEN = (1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.0)
"""What moves from batch to batch."""
OTHERWISE = (1.0, 0.93, 1.04, 1.1, 0.97, 0.9, 1.06, 1.02)
"""The same on the other side, in no relation to UNEVEN."""
CPU = (Role.PRIMARY, Resource.CPU_USER_S)
CLIENT = (Role.CLIENT, Resource.CPU_USER_S)
SENT = (Role.PRIMARY, Resource.WIRE_SENT_BYTES)
PAIRED = {PAIR: "one and two"}
SAME_CLIENT = {**PAIRED, CALIBRATED: "yes"}


def side(
    costs: Costs,
    *,
    batching: Mapping[str, Sequence[float]] | None = None,
    pace: Sequence[float] = (),
    conditions: Mapping[str, str] | None = None,
) -> Measurement:
    """A measurement of these costs, batch by batch, each of a start of its own."""
    batches = []
    for number in range(len(next(iter(costs.values())))):
        own: dict[Role, dict[Resource, float]] = {}
        for (role, resource), values in costs.items():
            own.setdefault(role, {})[resource] = values[number]
        reference = {"memory": pace[number]} if pace else {}
        moved = {name: values[number] for name, values in (batching or {}).items()}
        batches.append(Batch(1000, 2, 16, own, reference, moved, start=number))
    where = {"cpu": "one", "provider": "local", "disks": "memory", **(conditions or {})}
    return Measurement(
        Demand(OPERATION, "reef", Arch.X86_64, "key", intervals(tuple(batches))), tuple(batches), conditions=where
    )


def times(factor: float, values: Sequence[float]) -> list[float]:
    return [factor * value for value in values]


def of(before: Measurement, after: Measurement) -> dict[str, CostChange]:
    (operation,) = compare([before], [after])
    return {change.what: change for change in operation.changes}


def verdict(before: Measurement, after: Measurement) -> Outcome:
    return overall(compare([before], [after])).outcome


# What may explain a difference


@pytest.mark.parametrize(
    ("resource", "explained_by"),
    [
        (Resource.DEVICE_WRITES, "syncs"),
        (Resource.DEVICE_WRITE_BYTES, "syncs"),
        (Resource.INSTRUCTIONS, "switches"),
        (Resource.DEVICE_READS, None),
        (Resource.WIRE_SENT_BYTES, None),
    ],
)
@pytest.mark.parametrize("moved", ["syncs", "switches"])
def test_commits_explain_writes_wake_ups_explain_instructions_and_nothing_explains_the_wire(
    resource: Resource, explained_by: str | None, moved: str
) -> None:
    """The cost follows what moves, which is a quarter more on the second side."""
    before, after = UNEVEN, times(1.25, OTHERWISE)
    sides = [side({(Role.PRIMARY, resource): times(1e6, moves)}, batching={moved: moves}) for moves in (before, after)]
    assert verdict(*sides) is (Outcome.PASS if moved == explained_by else Outcome.FAIL)


def test_wake_ups_explain_the_cpu_of_a_pair_unless_it_is_relative_to_the_client() -> None:
    """A client of the same program already shows what the machine does to a side; the rest is the daemon's own."""

    def sides(conditions: Mapping[str, str]) -> list[Measurement]:
        return [
            side(
                {CPU: times(1e-4, moves), CLIENT: times(1e-5, [1.0] * 8)},
                batching={"switches": moves},
                conditions=conditions,
            )
            for moves in (UNEVEN, times(1.25, OTHERWISE))
        ]

    explained, relative = sides(PAIRED), sides(SAME_CLIENT)
    assert verdict(*explained) is Outcome.PASS
    assert verdict(*relative) is Outcome.FAIL
    batches = [each.batches for each in explained]
    assert settled(batches[0], batches[1], False) == "CPU of the OSDs is settled: pass"
    assert settled(batches[0], batches[1], True) == "CPU of the OSDs is settled: fail"


def test_the_pace_of_the_machine_excuses_neither_side_of_a_pair() -> None:
    """Both sides ran at the same time on the same machine."""
    slower = (1.2, 1.25, 1.3, 1.22, 1.28, 1.24, 1.26, 1.25)
    sides = [
        side({CPU: times(1e-4, moves)}, pace=moves, conditions=PAIRED)
        for moves in (UNEVEN, [value * by for value, by in zip(UNEVEN, slower, strict=True)])
    ]
    assert verdict(*sides) is Outcome.FAIL
    assert settled(sides[0].batches, sides[1].batches, False) == "CPU of the OSDs is settled: fail"


@pytest.mark.parametrize("client", [0.0, -1e-6])
def test_a_batch_without_a_cost_of_the_client_decides_nothing(client: float) -> None:
    """The costs of the others are relative to it."""
    steady = [1e-4] * 8
    sides = [side({CPU: steady, CLIENT: [first, *steady[1:]]}, conditions=SAME_CLIENT) for first in (steady[0], client)]
    assert verdict(*sides) is Outcome.INCONCLUSIVE
    assert settled(sides[0].batches, sides[1].batches, True) is None


# How certain a rise must be


def test_a_measurement_ends_early_only_for_a_verdict_that_is_clearer_than_the_last() -> None:
    before, after = ([1e-4] * 4, times(1.2e-4, (1.0, 1.05, 0.95, 1.01)))
    sides = [side({CPU: costs}, conditions=PAIRED) for costs in (before, after)]
    assert verdict(*sides) is Outcome.FAIL
    assert settled(sides[0].batches, sides[1].batches, False) is None


def test_the_roles_together_err_no_more_often_than_one_verdict() -> None:
    """One in a hundred appears to rise although it did not, of all ten together."""
    one_sided = (1 - ALONE) / 2
    assert 10 * one_sided == pytest.approx(0.01)


@pytest.mark.parametrize("conditions", [{}, PAIRED])
def test_one_role_must_be_more_certain_than_all_osds(conditions: Mapping[str, str]) -> None:
    changes = of(*(side({CPU: times(1e-4, moves)}, conditions=conditions) for moves in (UNEVEN, OTHERWISE)))
    together, alone = changes["CPU of OSDs"].ratio, changes["CPU of osd.primary"].ratio
    assert alone.value == pytest.approx(together.value)
    assert alone.low < together.low < together.high < alone.high


def test_kinds_of_traffic_are_as_certain_as_roles_in_a_pair_and_compared_start_by_start() -> None:
    """Starts that differ by half tell nothing of the two sides, which were in the same ones."""
    before, after = times(1e-4, (1.0, 1.5, 1.2, 0.9)), times(1e-4, (1.12, 1.7, 1.33, 1.02))
    changes = of(*(side({CPU: costs, SENT: times(1e8, costs)}, conditions=PAIRED) for costs in (before, after)))
    role, traffic = changes["CPU of osd.primary"].ratio, changes["sent by osd.primary"].ratio
    assert (traffic.low, traffic.high) == pytest.approx((role.low, role.high))
    assert changes["sent by osd.primary"].outcome is Outcome.FAIL


def test_batches_of_other_starts_are_no_pair() -> None:
    first, second = (side({CPU: times(1e-4 * factor, (1.0, 2.0, 1.0, 2.0))}, conditions=PAIRED) for factor in (1, 1.2))
    assert verdict(first, second) is Outcome.FAIL
    later = tuple(replace(batch, start=batch.start + 1) for batch in second.batches)
    assert verdict(first, replace(second, batches=later)) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("factor", "ends"), [(1.0, Outcome.PASS), (1.055, Outcome.INCONCLUSIVE), (1.1, Outcome.FAIL)])
def test_two_runs_differ_by_more_than_their_batches_show(factor: float, ends: Outcome) -> None:
    """Also where no batch differs from another: a start of the daemons is one of many."""
    assert verdict(*(side({SENT: [12000.0 * each] * 2}) for each in (1.0, factor))) is ends


@pytest.mark.parametrize(
    ("factor", "conditions", "ends"),
    [
        (1.0, {}, Outcome.PASS),
        (1.08, {}, Outcome.FAIL),
        (1.0, PAIRED, None),
        (1.08, PAIRED, None),
        (1.13, PAIRED, Outcome.FAIL),
    ],
)
def test_traffic_of_a_pair_must_rise_by_as_much_as_is_to_be_found(
    factor: float, conditions: Mapping[str, str], ends: Outcome | None
) -> None:
    """The requests that share a commit differ by percents between two sides that run the same."""
    even = (1.0, 1.001, 0.999, 1.0, 1.0, 1.001, 0.999, 1.0)
    sides = [
        side({CPU: times(1e-4, even), SENT: times(12000 * each, even)}, conditions=conditions) for each in (1.0, factor)
    ]
    assert of(*sides)["sent by osd.primary"].outcome is ends


@pytest.mark.parametrize(("after", "ends"), [(270.0, None), (300.0, Outcome.FAIL)])
def test_a_cost_about_the_least_amount_must_rise_by_as_much_as_is_to_be_found(
    after: float, ends: Outcome | None
) -> None:
    read = (Role.PRIMARY, Resource.DEVICE_READ_BYTES)
    sides = [side({CPU: [1e-4] * 8, read: [each] * 8}) for each in (200.0, after)]
    assert of(*sides)["read from device by osd.primary, less than 256 B counted as that"].outcome is ends


@pytest.mark.parametrize(
    ("resource", "least"),
    [
        (Resource.INSTRUCTIONS, 1000.0),
        (Resource.DEVICE_READS, 0.05),
        (Resource.DEVICE_WRITES, 0.05),
        (Resource.DEVICE_READ_BYTES, 256.0),
        (Resource.DEVICE_WRITE_BYTES, 256.0),
        (Resource.WIRE_SENT_BYTES, 1024.0),
        (Resource.WIRE_RECEIVED_BYTES, 1024.0),
    ],
)
def test_a_cost_is_compared_from_its_least_amount_on(resource: Resource, least: float) -> None:
    """A cost that is a little higher than the least amount was that amount before, and has not risen."""
    cost = (Role.PRIMARY, resource)
    for each, shown in ((0.999 * least, 0), (least, 1)):
        sides = [side({CPU: [1e-4] * 2, cost: [each] * 2}) for _ in range(2)]
        assert len([change for change in of(*sides).values() if change.resource is resource]) == shown
    before, after = (side({CPU: [1e-4] * 2, cost: [each] * 2}) for each in (0.0, 1.0005 * least))
    [change] = [change for change in of(before, after).values() if change.resource is resource]
    assert change.before == least
    assert change.after == pytest.approx(1.0005 * least)


@pytest.mark.parametrize(("before", "ends"), [(1.0, Outcome.FAIL), (0.99, None)])
def test_a_role_of_exactly_a_twentieth_of_the_cpu_counts(before: float, ends: Outcome | None) -> None:
    """On the second side the client has less than a twentieth, although it needs three times as much."""
    sides = [side({CPU: [19.0 * by] * 8, CLIENT: [cost] * 8}) for by, cost in ((1.0, before), (5.0, 3 * before))]
    assert of(*sides)["CPU of client"].outcome is ends


def test_a_pair_has_to_find_smaller_rises_of_cpu_than_a_stored_baseline() -> None:
    before, after = [1e-4] * 4, times(1e-4, (0.96, 1.04, 0.97, 1.06))
    pair = [side({CPU: costs}, conditions=PAIRED) for costs in (before, after)]
    stored = [side({CPU: costs}) for costs in (before, after)]
    assert (verdict(*pair), of(*pair)["CPU of OSDs"].least) == (Outcome.INCONCLUSIVE, FOUND)
    assert (verdict(*stored), of(*stored)["CPU of OSDs"].least) == (Outcome.PASS, STORED)


# What cannot be judged


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
def test_a_single_batch_of_a_side_is_not_compared(counts: tuple[int, int]) -> None:
    (operation,) = compare(*([side({CPU: [1e-4] * count})] for count in counts))
    assert operation.changes == ()
    assert operation.verdict.outcome is Outcome.INCONCLUSIVE
    assert operation.verdict.reason.endswith("at depth 16 on 3 copies: none of its costs has two batches on both sides")


def test_a_batch_at_rest_leaves_a_cost_open_and_its_mean_is_shown() -> None:
    change = of(side({CPU: [2e-4, 2e-4]}), side({CPU: [0.0, 3e-4, 6e-4]}))["CPU of OSDs"]
    assert change.outcome is Outcome.INCONCLUSIVE
    assert change.ratio is not None
    assert change.ratio.value == pytest.approx(1.5)
    assert (change.ratio.low, change.ratio.high) == (0.0, math.inf)


@pytest.mark.parametrize(("known", "which"), [(True, "the second"), (False, "the first")])
def test_a_side_that_did_not_measure_an_operation_is_named(known: bool, which: str) -> None:
    here = [measured(1)]
    (operation,) = compare(here, []) if known else compare([], here)
    assert (operation.operation, operation.changes) == (OPERATION, ())
    assert operation.verdict.reason == f"randwrite 4 KiB at depth 16 on 3 copies: {which} side did not measure it"


@pytest.mark.parametrize(("key", "name"), [("cpu", "CPU"), ("provider", "provider"), ("disks", "disks")])
def test_what_differs_between_two_machines_is_named(key: str, name: str) -> None:
    here = measured(1)
    there = replace(here, conditions={**here.conditions, key: "another"})
    reason = overall(compare([here], [there])).reason
    assert reason.endswith(f": measured on another {name}: {here.conditions[key]} and another")


def test_an_emulated_processor_is_named_as_the_reason() -> None:
    here = measured(1)
    emulated = replace(here, demand=replace(here.demand, emulated=True))
    assert "are emulated: CPU time says nothing about Ceph" in overall(compare([emulated], [here])).reason


def test_costs_that_are_not_judged_are_shown_with_the_verdict() -> None:
    here = measured(1)
    (operation,) = compare([here], [replace(here, demand=replace(here.demand, arch=Arch.AARCH64))])
    assert operation.changes
    assert operation.verdict.derivation == tuple(change.line for change in operation.changes)


# What is said of each cost


def test_a_line_has_both_amounts_and_the_rise_with_its_ends() -> None:
    change = CostChange("CPU", 3e-4, 3.3e-4, Ratio(1.1, 0.95, 1.2), None, Resource.CPU_USER_S, FOUND)
    assert change.line == "CPU: 300.0 us -> 330.0 us, +10.0 % [-5.0 % .. +20.0 %]"


@pytest.mark.parametrize("conditions", [PAIRED, SAME_CLIENT])
def test_amounts_are_those_of_an_operation_also_where_the_ratio_is_relative(conditions: Mapping[str, str]) -> None:
    costs = [(times(factor, [1e-4] * 4), [2e-5] * 4, times(factor, [12000.0] * 4)) for factor in (1.0, 1.2)]
    sides = [side({CPU: cpu, CLIENT: client, SENT: sent}, conditions=conditions) for cpu, client, sent in costs]
    lines = [change.line for change in of(*sides).values()]
    relative = ", relative to the client" if conditions is SAME_CLIENT else ""
    assert f"CPU of OSDs{relative}: 100.0 us -> 120.0 us, +20.0 % [+20.0 % .. +20.0 %]" in lines
    assert "sent by osd.primary: 12000 B -> 14400 B, +20.0 % [+20.0 % .. +20.0 %]" in lines
    together = overall(compare([sides[0]], [sides[1]]))
    assert together.reason.startswith("randwrite 4 KiB at depth 16 on 3 copies, CPU of OSDs")
    assert together.derivation
    assert all(line.endswith(RULE) for line in together.derivation)


def test_a_cost_that_ends_is_shown() -> None:
    reads = (Role.PRIMARY, Resource.DEVICE_READS)
    assert [*of(*(side({CPU: [1e-4] * 8, reads: [each] * 8}) for each in (2.0, 0.0)))][-1].startswith("device reads by")


def test_the_least_amount_is_told_in_its_unit() -> None:
    assert few(Resource.WIRE_SENT_BYTES) == ", less than 1024 B counted as that"
