"""fio's histograms over time: bins as fio numbers them, windows with and without operations."""

import math
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.workloads.fiolatency import BINS, Window, bin_ns, filled, log_of, options, windows


def line(at_ms: int, counts: Mapping[int, int]) -> str:
    """As fio 3.39 writes one."""
    return ", ".join(map(str, (at_ms, 1, 4096, *(counts.get(place, 0) for place in range(BINS))))) + "\n"


@pytest.mark.parametrize(("index", "nanoseconds"), [(0, 0), (127, 127), (128, 129), (191, 255), (192, 258), (256, 516)])
def test_a_bin_means_the_middle_of_its_range(index: int, nanoseconds: float) -> None:
    """128 to 129 ns share bin 128, 256 to 259 share bin 192: by hand from fio's stat.c."""
    assert bin_ns(index) == nanoseconds


def test_bins_rise_and_end_beyond_ten_seconds() -> None:
    middles = [bin_ns(index) for index in range(BINS)]
    assert middles == sorted(middles)
    assert middles[-1] > 10e9
    assert BINS == 1856


def test_a_window_has_its_rate_mean_and_percentiles() -> None:
    (window,) = windows(line(102_000, {100: 98, 127: 2}), 100.0, 102.0, 2.0)
    assert (window.began_s, window.ended_s, window.operations, window.rate) == (100.0, 102.0, 100, 50.0)
    assert window.mean_s == pytest.approx((98 * 100 + 2 * 127) / 100 / 1e9, rel=1e-12, abs=0)
    assert window.p99_s == pytest.approx(127e-9, rel=1e-12, abs=0)


def test_windows_that_last_a_little_longer_follow_each_other() -> None:
    text = "".join(line(100_000 + number * 530, {50: 10}) for number in range(1, 21))
    made = windows(text, 100.0, 110.6, 0.5)
    assert [each.operations for each in made] == [10] * 20
    assert all(each.rate == pytest.approx(10 / 0.53) for each in made)


def test_two_windows_of_one_millisecond_are_one() -> None:
    first, second = windows(
        line(101_000, {50: 10}) + line(102_000, {50: 4}) + line(102_000, {60: 6}), 100.0, 102.0, 1.0
    )
    assert (first.operations, second.operations, second.rate) == (10, 10, 10.0)
    assert second.mean_s == pytest.approx(56e-9)


def test_time_without_operations_is_windows_without_operations() -> None:
    """fio logs nothing while nothing ends: a client that stops would be one that is not looked at."""
    made = windows(line(101_000, {50: 10}) + line(106_000, {50: 10}), 100.0, 110.0, 1.0)
    assert [each.operations for each in made] == [10, 0, 0, 0, 0, 10, 0, 0, 0, 0]
    assert all(map(math.isnan, (made[1].mean_s, made[1].p99_s)))
    assert made[-1].ended_s == 110.0


def test_a_job_that_did_nothing_has_empty_windows() -> None:
    assert [each.operations for each in windows("", 100.0, 103.0, 1.0)] == [0, 0, 0]
    assert repr(windows(line(102_000, {}), 100.0, 102.0, 2.0)) == repr((Window(100.0, 102.0, 0),))


def test_a_line_that_was_cut_is_refused_with_its_beginning() -> None:
    cut = line(102_000, {}).rpartition(",")[0]
    with pytest.raises(LabBroken, match="format of fio's histogram log") as caught:
        windows(cut, 100.0, 102.0, 2.0)
    assert caught.value.detail == f"{BINS + 2} fields, {BINS + 3} wanted: {cut[:200]}"


@pytest.mark.parametrize("text", ["1, 2, 3\n", "fio: a warning\n"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(LabBroken, match="format of fio's histogram log"):
        windows(text, 0.0, 1.0, 1.0)


def test_fio_is_told_where_and_how_often() -> None:
    base = PurePosixPath("/n/fio/job")
    assert options(base, 1.5) == {
        "write_hist_log": "/n/fio/job/latency",
        "log_hist_msec": "1500",
        "log_unix_epoch": "1",
        "per_job_logs": "0",
    }
    assert log_of(base) == base / "latency_clat_hist.log"


def test_where_no_window_is_known_there_was_no_operation() -> None:
    known = [Window(100.0, 102.0, 5, 0.1, 0.1), Window(108.0, 110.0, 3, 0.1, 0.1)]
    made = filled(known, 100.0, 114.0, 2.0)
    assert [window.operations for window in made] == [5, 0, 0, 0, 3, 0, 0]
    # By their words: from Python 3.13 on two windows whose latency is no number differ.
    assert list(map(repr, filled([], 100.0, 104.0, 2.0))) == [
        repr(Window(100.0, 102.0, 0)),
        repr(Window(102.0, 104.0, 0)),
    ]
