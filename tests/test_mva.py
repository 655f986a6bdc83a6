"""Queueing against values worked out by hand."""

from __future__ import annotations

import pytest

from tuning.mva import Station, bound, solve


def test_one_station_without_delay_is_full_at_once() -> None:
    point = solve([Station("disk", 0.010)], 0.0, 4)

    assert point.throughput == pytest.approx(100.0)
    assert point.response_s == pytest.approx(0.040)


def test_two_stations_worked_out_by_hand() -> None:
    # D = 5 ms and 10 ms. n=1: R = 15 ms, X = 66.7/s, Q = 1/3 and 2/3.
    # n=2: R = 5 x 4/3 + 10 x 5/3 = 23.33 ms, X = 2 / 23.33 ms = 85.71/s.
    point = solve([Station("cpu", 0.005), Station("disk", 0.010)], 0.0, 2)

    assert point.throughput == pytest.approx(2 / 0.0233333, rel=1e-4)
    assert point.residence["disk"] == pytest.approx(0.0166667, rel=1e-4)


def test_balanced_stations_follow_the_closed_form() -> None:
    # K equal stations of demand D: X(n) = n / (D (n + K - 1)).
    point = solve([Station("osd", 0.001, copies=12)], 0.0, 30)

    assert point.throughput == pytest.approx(30 / (0.001 * 41))


def test_delay_is_added_to_the_response() -> None:
    assert solve([Station("cpu", 0.001)], 0.009, 1).response_s == pytest.approx(0.010)


@pytest.mark.parametrize("population", [1, 3, 10, 200])
def test_no_throughput_beats_the_bounds(population: int) -> None:
    stations = [Station("cpu", 0.002, copies=3), Station("disk", 0.004)]

    assert solve(stations, 0.005, population).throughput <= bound(stations, 0.005, population) * (1 + 1e-9)
    assert bound(stations, 0.005, population) <= 1 / 0.004
