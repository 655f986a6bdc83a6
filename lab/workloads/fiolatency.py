"""Latency over time from fio's histogram log: operations completed in each window, their mean and percentiles."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from cephlab.lab.base.errors import LabBroken

PREFIX = "latency"
BINS = 29 * 64
"""FIO_IO_U_PLAT_NR in fio's stat.h: number of groups times values per group, since fio 3.0."""
_BITS = 6
"""FIO_IO_U_PLAT_BITS."""
P99 = 0.99


@dataclass(frozen=True)
class Window:
    """A period of a job. began_s, ended_s: since the epoch; mean_s, p99_s: NaN if no operation ended in it."""

    began_s: float
    ended_s: float
    operations: int
    mean_s: float = math.nan
    p99_s: float = math.nan

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / (self.ended_s - self.began_s)

    @property
    def middle_s(self) -> float:
        return (self.began_s + self.ended_s) / 2


def options(base: PurePosixPath, window_s: float) -> Mapping[str, str]:
    """Options that make fio log a histogram for each window. base: the folder for the log."""
    return {
        "write_hist_log": str(base / PREFIX),
        "log_hist_msec": str(round(window_s * 1000)),
        "log_unix_epoch": "1",
        "per_job_logs": "0",
    }


def log_of(base: PurePosixPath) -> PurePosixPath:
    """The path of the histogram log."""
    return base / f"{PREFIX}_clat_hist.log"


def bin_ns(index: int) -> float:
    """The middle of a bin in nanoseconds, as computed by `plat_idx_to_val` in fio's stat.c."""
    if index < 2 << _BITS:
        return float(index)
    shift = (index >> _BITS) - 1
    return float((1 << (shift + _BITS)) + (index % (1 << _BITS) + 0.5) * (1 << shift))


_BIN_NS: NDArray[np.float64] = np.asarray([bin_ns(index) for index in range(BINS)])


def windows(text: str, began_s: float, ended_s: float, window_s: float) -> tuple[Window, ...]:
    """The windows of a job that ran from began_s to ended_s, since the epoch; empty windows fill what fio did not log.

    text: fio's log, one line per window: `time in ms, direction, block size, BINS counts`. fio ends a window with the
    first operation after its time, so windows are a little longer than window_s. On a busy machine it may end two in
    the same millisecond; they are merged here. LabBroken for any other format.
    """
    counted: dict[float, NDArray[np.float64]] = {}
    for line in text.splitlines():
        at_ms, counts = _parsed(line)
        counted[at_ms] = counts + counted[at_ms] if at_ms in counted else counts
    series: list[Window] = []
    last_s = began_s
    for at_ms, counts in counted.items():
        series += _empty(last_s, at_ms / 1000 - window_s, window_s)
        last_s = series[-1].ended_s if series else began_s
        series.append(_window(last_s, at_ms / 1000, counts))
        last_s = at_ms / 1000
    return (*series, *_empty(last_s, ended_s, window_s))


def filled(known: Sequence[Window], began_s: float, ended_s: float, window_s: float) -> tuple[Window, ...]:
    """The windows of a job from began_s to ended_s, with empty windows in the gaps."""
    series: list[Window] = []
    for window in known:
        series += [*_empty(series[-1].ended_s if series else began_s, window.began_s, window_s), window]
    return (*series, *_empty(series[-1].ended_s if series else began_s, ended_s, window_s))


_ROUNDING = 1e-6
"""Rounding error of times since the epoch, as a share of a window."""


def _empty(began_s: float, ended_s: float, window_s: float) -> list[Window]:
    """Windows without an operation: as many whole ones as fit."""
    count = math.floor((ended_s - began_s) / window_s + _ROUNDING)
    return [Window(began_s + i * window_s, began_s + (i + 1) * window_s, 0) for i in range(count)]


def _parsed(line: str) -> tuple[float, NDArray[np.float64]]:
    try:
        words = np.asarray(line.split(","), dtype=float)
    except ValueError as error:
        raise LabBroken("the format of fio's histogram log is not known", line[:200]) from error
    if len(words) < BINS + 3:
        got = f"{len(words)} fields, {BINS + 3} wanted: {line[:200]}"
        raise LabBroken("the format of fio's histogram log is not known", got)
    return float(words[0]), words[-BINS:]


def _window(began_s: float, ended_s: float, counts: NDArray[np.float64]) -> Window:
    total = float(counts.sum())
    if not total:
        return Window(began_s, ended_s, 0)
    mean = float(counts @ _BIN_NS) / total / 1e9
    return Window(began_s, ended_s, round(total), mean, _percentile(counts, total, P99))


def _percentile(counts: NDArray[np.float64], total: float, share: float) -> float:
    return float(_BIN_NS[int(np.searchsorted(np.cumsum(counts), share * total))]) / 1e9
