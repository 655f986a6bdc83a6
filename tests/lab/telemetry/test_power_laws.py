"""Laws of watts: what an integral, a comparison of two sources and work per watt hold for any readings."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import (
    DCMI_ARGV,
    GAP_S,
    JUMP,
    SAME_SHARE,
    STUCK,
    Counted,
    Energy,
    Reading,
    Scope,
    Source,
    apart,
    dcmi_watts,
    disagreement,
    energy,
    energy_value,
    modelled,
    rapl_watts,
    trouble_of,
    watts_of_all,
    work_per_watt,
)
from tests.lab.telemetry.test_power import DCMI, bmc, of

laws = settings(deadline=None, max_examples=50)
WATTS = st.floats(1.0, 1000.0)
SHARES = st.floats(0.0, 1.0)
READ = st.lists(st.tuples(st.floats(0.1, 0.99 * GAP_S), WATTS), min_size=3, max_size=12)


def readings(spaced: Sequence[tuple[float, float]]) -> list[Reading]:
    """Readings of one sensor. spaced: seconds since the one before, and watts."""
    at_s, made = 0.0, []
    for after_s, watts in spaced:
        at_s += after_s
        made.append(Reading(at_s, watts, Source.BMC, Scope.MACHINE, "n0"))
    return made


@pytest.mark.slow
@given(READ, SHARES, SHARES, SHARES, st.randoms())
@laws
def test_energy_adds_up_over_time_whatever_the_order_of_readings(
    spaced: list[tuple[float, float]], first: float, middle: float, last: float, random: Any
) -> None:
    read = readings(spaced)
    began_s, ended_s = read[0].at_s, read[-1].at_s
    cuts = sorted(began_s + share * (ended_s - began_s) for share in (first, middle, last))
    assume(min(later - cut for cut, later in pairwise(cuts)) > 1e-6)
    cuts[-1] = min(cuts[-1], ended_s)
    shuffled = random.sample(read, len(read))
    whole = energy(shuffled, (cuts[0], cuts[2]))
    parts = [energy(read, window) for window in ((cuts[0], cuts[1]), (cuts[1], cuts[2]))]
    assert sum(part.joules for part in parts) == pytest.approx(whole.joules)
    assert sum(part.seconds for part in parts) == pytest.approx(whole.seconds)
    watts = [reading.watts for reading in read]
    assert min(watts) <= whole.watts * (1 + 1e-9)
    assert whole.watts <= max(watts) * (1 + 1e-9)
    assert energy(read, (cuts[0], cuts[2]), (cuts[0], cuts[1])).idle_w == pytest.approx(parts[0].watts)


@pytest.mark.slow
@given(st.lists(st.floats(0.1, 0.99 * GAP_S), min_size=2, max_size=8), WATTS, st.floats(0.0, 3.0), SHARES, SHARES)
@laws
def test_watts_that_rise_evenly_have_the_mean_of_both_ends(
    pauses_s: list[float], first_w: float, rise: float, began: float, ended: float
) -> None:
    times_s = [sum(pauses_s[:count]) for count in range(len(pauses_s) + 1)]
    read = [Reading(at_s, first_w + rise * at_s, Source.BMC, Scope.MACHINE, "n0") for at_s in times_s]
    window = tuple(sorted(share * times_s[-1] for share in (began, ended)))
    assume(window[1] - window[0] > 1e-6)
    assert energy(read, (window[0], window[1])).watts == pytest.approx(first_w + rise * sum(window) / 2)


def test_a_gap_counts_only_inside_of_the_window_and_only_above_its_limit() -> None:
    def after(gap_s: float) -> list[Reading]:
        return readings([(1.0, 100.0), (1.0, 101.0), (1.0, 102.0), (gap_s, 103.0)])

    assert energy(after(GAP_S), (2.0, 4.0)).seconds == 2.0
    assert energy(after(2 * GAP_S), (1.0, 3.0)).joules == pytest.approx(202.0)
    with pytest.raises(LabBroken, match="do not cover"):
        energy(after(GAP_S + 0.1), (2.0, 4.0))


def test_readings_that_do_not_cover_a_window_are_told_with_both_spans() -> None:
    with pytest.raises(LabBroken) as trouble:
        energy(bmc([100.0, 101.0, 102.0, 103.0]), (1.0, 16.0))
    assert trouble.value.detail == "got 0.0 to 15.0, wanted 1.0 to 16.0"


@pytest.mark.slow
@given(WATTS, WATTS, st.floats(0.01, 100.0))
@laws
def test_how_far_two_sources_are_apart_depends_on_neither_order_nor_unit(
    watts: float, other: float, scale: float
) -> None:
    first, second = of("a", watts), of("a", other, Source.METER)
    share = apart(first, second)
    assert 0 <= share < 1
    assert apart(second, first) == share
    assert apart(of("a", watts * scale), of("a", other * scale, Source.METER)) == pytest.approx(share, abs=1e-9)
    assert max(watts, other) * (1 - share) == pytest.approx(min(watts, other))
    assert (disagreement(first, second) == "") is (share <= SAME_SHARE)
    assert apart(first, first) == 0.0


@pytest.mark.parametrize("other", [of("b", 10), of("a", 10, scope=Scope.CPU)])
def test_neither_another_node_nor_another_scope_is_compared(other: Energy) -> None:
    with pytest.raises(SpecError, match="different nodes or scopes"):
        apart(of("a", 10), other)


def test_a_disagreement_names_both_sources() -> None:
    assert disagreement(of("a", 100), of("a", 90, Source.METER)) == "a: bmc 100.0 W, meter 90.0 W: 10.0 % apart"


@pytest.mark.slow
@given(st.lists(WATTS, min_size=1, max_size=5), st.floats(1.0, 1e6), SHARES, SHARES)
@laws
def test_work_per_watt_is_of_all_nodes_and_as_uncertain_as_rate_and_watts_together(
    watts: list[float], rate: float, below: float, above: float
) -> None:
    energies = [of(f"n{number}", each) for number, each in enumerate(watts)]
    work = work_per_watt(Interval(rate, rate * (1 - below), rate * (1 + above), 5), energies)
    both = watts_of_all(energies)
    assert both.mean == pytest.approx(sum(watts))
    assert both.samples == len(watts)
    assert both.low == pytest.approx((1 - SAME_SHARE) * both.mean)
    assert both.high == pytest.approx((1 + SAME_SHARE) * both.mean)
    assert work.mean * both.mean == pytest.approx(rate)
    assert work.low * both.high == pytest.approx(rate * (1 - below))
    assert work.high * both.low == pytest.approx(rate * (1 + above))


def test_a_rate_that_may_be_below_nothing_does_no_negative_work() -> None:
    assert work_per_watt(Interval(10.0, -5.0, 25.0, 3), [of("a", 100)]).low == 0.0


@pytest.mark.parametrize(
    "energies",
    [
        [],
        [of("a", 10), of("b", 10, scope=Scope.CPU)],
        [of("a", 10), replace(of("b", 10), seconds=11.0)],
    ],
)
def test_energies_of_other_scopes_and_windows_are_not_added_up(energies: list[Energy]) -> None:
    with pytest.raises(SpecError, match="different sources") as refused:
        work_per_watt(Interval(1, 1, 1, 5), energies)
    named = [f"{each.node} {each.source} {each.scope} {each.seconds:g} s" for each in energies]
    assert refused.value.detail == (", ".join(named) or "no energy")


def test_a_bmc_may_warn_before_it_reports() -> None:
    assert dcmi_watts(f"a warning{DCMI}") == 225
    assert " ".join(DCMI_ARGV) == "ipmitool dcmi power reading"


@pytest.mark.slow
@given(WATTS, WATTS, SHARES, SHARES)
@laws
def test_modelled_watts_lie_between_idle_and_loaded_as_the_utilisation_does(
    idle_w: float, more_w: float, utilisation: float, other: float
) -> None:
    first, second = (modelled(idle_w, idle_w + more_w, share) for share in sorted((utilisation, other)))
    assert idle_w <= first <= second * (1 + 1e-9)
    assert second <= (idle_w + more_w) * (1 + 1e-9)
    assert first - idle_w == pytest.approx(more_w * min(utilisation, other), abs=1e-6)


def test_a_machine_may_take_nothing_idle_and_no_more_under_load() -> None:
    assert (modelled(0, 100, 0.5), modelled(80, 80, 0.5)) == (50, 80)


@pytest.mark.slow
@given(st.lists(st.integers(100, 400), max_size=4), st.integers(1, STUCK - 1), st.integers(0, 5))
@laws
def test_a_sensor_is_stuck_from_a_number_of_equal_readings_on_wherever_they_are(
    others: list[int], fewer: int, where: int
) -> None:
    ahead = [float(200 + number % 2) for number in range(where)]
    equal, more = [150.5] * (STUCK - fewer), [float(watts) for watts in others]
    assert trouble_of([*ahead, *equal, *more]) == ()
    assert trouble_of([*ahead, *[150.5] * STUCK, *more]) == (f"is stuck: {STUCK} equal readings in a row",)


@pytest.mark.slow
@given(st.floats(0.1, 1000.0), st.floats(0.0, 0.9))
@laws
def test_a_reading_jumps_beyond_a_factor_of_the_mean_of_its_neighbours(mean: float, uneven: float) -> None:
    before, after = mean * (1 - uneven), mean * (1 + uneven)
    for factor in (1.01 / JUMP, 1.0, 0.99 * JUMP):
        assert "jumps" not in " ".join(trouble_of([mean, before, mean * factor, after][1:]))
    for factor in (0.99 / JUMP, 1.01 * JUMP):
        assert trouble_of([before, mean * factor, after])[0].startswith("jumps: ")


def test_exactly_the_factor_is_no_jump_and_only_the_first_jump_is_told() -> None:
    assert trouble_of([100.0, 100.0 * JUMP, 100.0]) == trouble_of([100.0, 100.0 / JUMP, 100.0]) == ()
    assert trouble_of([0.0, 5.0, 0.0]) == ("reads impossible values",), "nothing is a multiple of nothing"
    assert trouble_of([100.0, 700.0, 100.0, 101.0, 800.0, 101.0]) == ("jumps: 700 W between 100 and 100",)


def test_the_limits_in_figures() -> None:
    """A gap of 30 s, ten equal readings, a factor of five, 3 % between two sources."""
    assert (trouble_of([150.0] * 9), trouble_of([150.0] * 10) == ()) == ((), False)
    assert (trouble_of([100.0, 499.0, 100.0]), trouble_of([100.0, 501.0, 100.0]) == ()) == ((), False)
    assert energy(bmc([100.0, 101.0], every_s=30.0), (0.0, 30.0)).seconds == 30.0
    with pytest.raises(LabBroken, match="do not cover"):
        energy(bmc([100.0, 101.0], every_s=30.5), (0.0, 30.0))
    assert disagreement(of("a", 1000), of("a", 970, Source.METER)) == ""
    assert disagreement(of("a", 1000), of("a", 969, Source.METER))


def test_every_trouble_of_a_sensor_is_told_with_its_energy() -> None:
    odd = energy(bmc([200.0] * 11 + [0.0, 200.0]), (0.0, 60.0))
    assert odd.trouble == (
        "reads impossible values",
        f"is stuck: {STUCK} equal readings in a row",
        "jumps: 0 W between 200 and 200",
    )
    both = energy(bmc([0.0, 90.0, 200.0, 0.0, 201.0]), (10.0, 20.0), idle=(0.0, 5.0))
    assert both.trouble[-1] == "reads impossible values before the load"
    assert both.trouble[0] == "reads impossible values"
    assert not both.measured


def test_an_energy_has_its_figures_by_name() -> None:
    value = energy(bmc([100.0, 102.0, 104.0, 106.0]), (5.0, 15.0), idle=(0.0, 5.0))
    assert energy_value(value) == {
        "node": "n0",
        "source": "bmc",
        "scope": "machine",
        "seconds": 10.0,
        "watts": pytest.approx(104.0),
        "idle_w": pytest.approx(101.0),
        "trouble": [],
    }
    assert value.above_idle_w == pytest.approx(3.0)
    alone = energy(bmc([100.0, 102.0]), (0.0, 5.0))
    assert (alone.idle_w, alone.above_idle_w) == (None, None)
    assert of("n0", 10).above_idle_w is None


def test_archives_name_sources_and_scopes_as_before() -> None:
    energies = [energy_value(of("n0", 10, source, scope)) for source in Source for scope in Scope]
    assert [value["source"] for value in energies[::2]] == ["meter", "bmc", "sensors", "rapl", "model"]
    assert [value["scope"] for value in energies[:2]] == ["machine", "CPU"]


def test_readings_of_other_nodes_and_scopes_are_not_integrated() -> None:
    read = bmc([100.0, 101.0])
    for other in (bmc([100.0], node="n1"), [replace(read[0], scope=Scope.CPU)], []):
        with pytest.raises(SpecError, match="different sources"):
            energy([*read, *other] if other else [], (0.0, 5.0))


COUNTS = st.integers(0, 10**9 - 1)


@pytest.mark.slow
@given(st.lists(st.tuples(COUNTS, st.integers(0, 10**8)), min_size=1, max_size=4), st.floats(0.5, 60.0))
@laws
def test_watts_of_energy_counters_add_up_also_where_a_counter_wraps(
    packages: list[tuple[int, int]], seconds: float
) -> None:
    before = {str(zone): Counted(count, 10**9) for zone, (count, _) in enumerate(packages)}
    after = {str(zone): Counted((count + spent) % 10**9, 10**9) for zone, (count, spent) in enumerate(packages)}
    wanted = sum(spent for _, spent in packages) / 1e6 / seconds
    assert rapl_watts(before, after, seconds) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_energy_counters_need_packages_and_time_between_two_looks(seconds: float) -> None:
    with pytest.raises(SpecError, match="do not match"):
        rapl_watts({"a": Counted(1, 10)}, {"a": Counted(2, 10)}, seconds)
    with pytest.raises(SpecError, match="do not match"):
        rapl_watts({}, {}, 1.0)
