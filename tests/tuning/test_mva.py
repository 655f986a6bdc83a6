"""Queueing against values worked out by hand."""

import time

import pytest

from cephlab.tuning.mva import EXACT_POPULATION, Station, bound, harmonic, solve


def test_one_station_without_delay_is_full_at_once() -> None:
    point = solve([Station("disk", 0.010)], 0.010, 4)

    assert point.throughput == pytest.approx(100.0)
    assert point.response_s == pytest.approx(0.040)


def test_two_stations_worked_out_by_hand() -> None:
    # D = 5 ms and 10 ms. n=1: R = 15 ms, X = 66.7/s, Q = 1/3 and 2/3.
    # n=2: R = 5 x 4/3 + 10 x 5/3 = 23.33 ms, X = 2 / 23.33 ms = 85.71/s.
    point = solve([Station("cpu", 0.005), Station("disk", 0.010)], 0.015, 2)

    assert point.throughput == pytest.approx(2 / 0.0233333, rel=1e-4)
    assert point.queued["disk"] == pytest.approx(0.0066667, rel=1e-4)


def test_balanced_stations_follow_the_closed_form() -> None:
    # K equal stations of demand D: X(n) = n / (D (n + K - 1)).
    point = solve([Station("osd", 0.001, copies=12)], 0.012, 30)

    assert point.throughput == pytest.approx(30 / (0.001 * 41))


def test_alone_an_operation_takes_what_it_takes_alone() -> None:
    assert solve([Station("cpu", 0.001)], 0.010, 1).response_s == pytest.approx(0.010)


def test_shards_beside_each_other_fill_the_disks_but_are_waited_for_once() -> None:
    # Six disks, each takes a shard of every operation: 10 ms. Alone that is 10 ms and not 60.
    disks = Station("disk", 0.010, copies=6, wait=0.010 / 6)

    assert solve([disks], 0.010, 1).throughput == pytest.approx(100.0)
    assert solve([disks], 0.010, 50).throughput == pytest.approx(100.0)
    assert solve([disks], 0.050, 2).response_s == pytest.approx(0.050 + 0.010 * (0.010 / 0.050))


def test_the_last_of_several_waits() -> None:
    assert harmonic(0) == 0
    assert harmonic(3) == pytest.approx(1 + 1 / 2 + 1 / 3)


@pytest.mark.parametrize("population", [1, 3, 10, 200, EXACT_POPULATION + 1, 10**10])
def test_no_throughput_beats_the_bounds(population: int) -> None:
    stations = [Station("cpu", 0.002, copies=3), Station("disk", 0.004)]

    assert solve(stations, 0.015, population).throughput <= bound(stations, 0.015, population) * (1 + 1e-9)
    assert bound(stations, 0.015, population) <= 1 / 0.004


def test_many_in_flight_are_answered_at_once_and_never_do_less() -> None:
    stations = [Station("cpu", 1e-6, copies=3), Station("disk", 2e-6)]
    counts = [EXACT_POPULATION - 1, EXACT_POPULATION, EXACT_POPULATION + 1, 10_000, 10**6, 10**10]
    began = time.monotonic()
    done = [solve(stations, 0.1, n).throughput for n in counts]

    assert time.monotonic() - began < 10
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1 / 2e-6)
    assert done[2] == pytest.approx(done[1], rel=0.01)


@pytest.mark.parametrize("demand_s", [0.001, 10.0])
@pytest.mark.parametrize("population", [EXACT_POPULATION // 2, EXACT_POPULATION * 2])
def test_balanced_stations_follow_the_closed_form_however_many_are_in_flight(demand_s: float, population: int) -> None:
    # Schweitzer's fixed point is exact where all queues are alike: n / K operations wait at each.
    copies = 2000
    point = solve([Station("osd", demand_s, copies=copies)], demand_s * copies, population)

    assert point.population == population
    assert point.throughput == pytest.approx(population / (demand_s * (population + copies - 1)), rel=1e-6)
    assert point.queued["osd"] == pytest.approx(demand_s * (population - 1), rel=1e-6)
    assert point.response_s == pytest.approx(population / point.throughput)


def test_what_is_done_beside_an_operation_limits_it_all_the_same() -> None:
    # The disk is busy for 10 ms that no operation waits for: 100 a second is all that it can do.
    beside = Station("log", 0.010, wait=0.0)

    assert solve([beside], 0.001, 50).throughput == pytest.approx(100.0)
    assert solve([beside], 0.001, EXACT_POPULATION + 1).throughput == pytest.approx(100.0)
    assert bound([beside], 0.001, 50) == pytest.approx(100.0)


def test_without_any_station_nothing_is_waited_for() -> None:
    assert bound([], 0.5, 3) == pytest.approx(6.0)
    point = solve([], 0.5, 3)
    assert (point.throughput, point.response_s) == pytest.approx((6.0, 0.5))
    assert point.queued == {}
    free = solve([Station("free", 0.0)], 0.5, 3)
    assert free.throughput == pytest.approx(6.0)
    assert free.queued == {"free": 0.0}
