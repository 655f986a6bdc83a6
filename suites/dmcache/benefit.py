"""The cache's gain: transactions a second with it, divided by those of the origin alone, as in the 2015 paper.

The seconds of a run are taken as independent. They are not quite, so intervals are slightly too narrow.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.suites import gains
from cephlab.suites.dmcache.findings import note_findings, thread_counts
from cephlab.suites.dmcache.oltp import ROWS, WARM_S, fill, job, measured, steady
from cephlab.suites.dmcache.stand import Stand, scenario_on_stand, standing
from cephlab.suites.machines import profile_of_disks

FEW_THREADS = 1
"""So few that a transaction waits for the device and not for the one CPU: the paper's gain is at few threads."""
MOST_THREADS = 32
"""Tried even where the client has few processors: a guest of User-Mode Linux has one."""
ROUNDS = 3
SECONDS = {Tier.QUICK: WARM_S + 4, Tier.FULL: WARM_S + 8}
"""Length of a run; its first WARM_S do not count."""
PAPER_TURN = 116
"""From this many threads on, the paper's throughput was better without dm-cache."""

GAIN = Bound("the paper found more transactions with the cache at few threads", least=1.0, basis=Basis.SHAPE)
"""The limit for a lab, whose machines have no profile. `suites/gains.py` has the one for a profile's machines."""
NO_LIMIT = Bound("recorded only: the paper's figures come from other machines", basis=Basis.NOTED)


def note_gain(recorder: Recorder, what: str, values: Mapping[bool, Sequence[float]], bound: Bound) -> float:
    """Record the gain as a figure, and return its lower end. values: seconds with the cache (True) and without."""
    ratio = ratio_of_means(values[True], values[False])
    recorder.figure(what, ratio.mean, "times as many transactions as without", bound, interval=ratio.ends)
    return ratio.low


def in_turns(stand: Stand, stage: Stage, mode: DmCacheMode, threads: int, rounds: int) -> dict[bool, list[float]]:
    """Transactions of each second with a fresh cache (True) and without one, run alternately."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(rounds):
        for cached in (False, True):
            if cached:
                stand.cached(mode)
            else:
                stand.plain()
            wanted = job(stand, stage, threads=threads, runtime_s=SECONDS[stage.tier])
            label = f"{mode if cached else 'none'}, {threads} threads"
            seconds[cached] += steady(measured(stand, stage, label, wanted))
    return seconds


def gain(stage: Stage, mode: DmCacheMode) -> None:
    """Compare one mode with no cache, at few threads. A lab judges writeback only, the paper's one mode."""
    with standing(stage) as stand:
        begin(stand, stage)
        seconds = in_turns(stand, stage, mode, FEW_THREADS, ROUNDS)
        here = GAIN if mode is DmCacheMode.WRITEBACK else NO_LIMIT
        bound = gains.of_database(stage, gains.of_mode(mode), FEW_THREADS, here)
        note_gain(stage.recorder, f"{mode}, {FEW_THREADS} thread", seconds, bound)
    if stage.tier is Tier.FULL:  # a second has few transactions for a 95th percentile, and a short run has few seconds
        note_findings(stage)


def sweep(stage: Stage) -> None:
    """Compare writeback with no cache at each thread count, and record where the gain ends."""
    turn = 0
    with standing(stage) as stand:
        begin(stand, stage)
        counts = thread_counts(stand.host, MOST_THREADS)
        for threads in counts:
            few = threads == FEW_THREADS
            seconds = in_turns(stand, stage, DmCacheMode.WRITEBACK, threads, ROUNDS if few else 1)
            over = gains.of_mode(DmCacheMode.WRITEBACK)
            bound = gains.of_database(stage, over, threads, GAIN) if few else NO_LIMIT
            low = note_gain(stage.recorder, f"writeback, {threads} threads", seconds, bound)
            if low < 1 and not turn:
                turn = threads
    note_findings(stage)
    beyond = "" if turn else f"; a gain at every count up to {counts[-1]}"
    why = f"recorded only: the paper has {PAPER_TURN}, on two processors of ten cores{beyond}"
    bound = Bound(why, basis=Basis.NOTED)
    stage.recorder.figure("threads from which no gain is shown, 0 for none", turn, "threads", bound)


def begin(stand: Stand, stage: Stage, rows: int = ROWS) -> None:
    """Fill a database on the origin alone, then make the origin slow, unless its disks are those of a profile."""
    fill(stand, stage, rows)
    if profile_of_disks(stage) is None:
        stand.impose()


SCENARIOS = (
    *(
        scenario_on_stand(
            name=f"dmcache.gain[{mode}]",
            goal=f"At few threads, a database commits more on dm-cache in {mode} mode than on a slow origin alone.",
            method="Runs sysbench on MariaDB alternately with a fresh cache and without one; compares the rates.",
            run=partial(gain, mode=mode),
            tier=Tier.QUICK if mode is DmCacheMode.WRITEBACK else Tier.FULL,
        )
        for mode in DmCacheMode
    ),
    scenario_on_stand(
        name="dmcache.threads",
        goal="With one thread, a database commits more with a writeback cache; where the gain ends is recorded.",
        method="At each thread count, runs sysbench on MariaDB with a fresh cache and without one; takes the ratio.",
        run=sweep,
    ),
)
