"""Claims of the Proxmox VE benchmark of 2020 about guests, as ratios of rates with intervals."""

import math
from collections.abc import Sequence
from statistics import fmean

from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval_of, ratio_of
from cephlab.suites.hci.load import GuestRun

SAID = "the Proxmox VE benchmark of 2020 says"
SEVERAL = Bound(f"{SAID}: six guests do more than one", least=1.0, basis=Basis.SHAPE)
EMULATED = "not judged: the emulated processor limits the guest"
FOUR_JOBS = 4
_MOST = 1e9

WRITEBACK = {
    ("write", False): "36.5 % more writes with writeback in one guest, 25.1 % in six, at four jobs",
    ("read", False): "44.4 % fewer reads with writeback in one guest, 55.1 % in six, at four jobs",
    ("randwrite", False): "a slight gain in writes with writeback at four jobs",
    ("randread", False): "a small loss in reads with writeback at four jobs",
    ("write", True): "a small advantage in the bandwidth of writes with writeback",
    ("randwrite", True): "a small advantage in the bandwidth of writes with writeback",
}
"""(fio's rw, whether bandwidth is meant) -> what the paper says."""


def rate_of(turns: Sequence[Sequence[GuestRun]]) -> Interval:
    """The rate of all guests together, by their mean and by the lowest and the highest end of any turn.

    So it holds what turns differ by, minutes apart.
    """
    rates = [_turn(runs) for runs in turns]
    low, high = min(rate.low for rate in rates), max(rate.high for rate in rates)
    return Interval(fmean(rate.mean for rate in rates), low, high, min(rate.samples for rate in rates))


def _turn(runs: Sequence[GuestRun]) -> Interval:
    """The rate of all guests in one turn. The variance of a sum is the sum of the variances."""
    mains = [run.result.main for run in runs]
    spread = math.sqrt(sum(result.iops_stddev**2 for result in mains))
    return interval_of(sum(result.iops for result in mains), spread, min(result.iops_samples for result in mains))


def note_writeback(
    recorder: Recorder, label: str, claim: str, sides: tuple[Interval, Interval], *, writes: bool, judged: bool
) -> None:
    """Record the rate with writeback over that without. sides: both rates. Writes should gain, reads lose."""
    least, most = (1.0, None) if writes else (None, 1.0)
    bound = Bound(f"{SAID}: {claim}", least, most, basis=Basis.SHAPE)
    what = f"rate with writeback over that with none, {label}"
    note(recorder, what, ratio_of(*sides), bound, "" if judged else EMULATED)


def note_guests(
    recorder: Recorder, label: str, sides: tuple[Interval, Interval], bound: Bound | None = None, *, judged: bool
) -> None:
    """Record the rate of several guests over that of one. sides: both rates. bound: None for the paper's."""
    bound = bound or SEVERAL
    what = f"rate of several guests over that of one, {label}"
    note(recorder, what, ratio_of(*sides), bound, "" if judged else EMULATED)


def note(recorder: Recorder, what: str, ratio: Interval, bound: Bound, why_not: str) -> None:
    """Record a ratio of rates. why_not: why this machine cannot show it, so that it is not judged; empty if it can."""
    if why_not:
        bound = Bound(f"{bound.why}; {why_not}", basis=Basis.NOTED)
    recorder.figure(what, min(ratio.mean, _MOST), "times", bound, interval=(ratio.low, min(ratio.high, _MOST)))
