"""What the cache gains: transactions a second beside the origin alone, by interval, as in the 2015 paper.

Seconds of a run are taken as independent of each other, which they are not quite: an interval is a little too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lab.blockstack.dmcache import Mode
from lab.history import Recorder
from lab.scenario import Scenario, Stage, Tier
from lab.telemetry.statistics import ratio_of_means
from lab.workloads import sysbench
from suites.dmcache.oltp import WARM_S, job, measured, steady
from suites.dmcache.stand import NEEDS, TOPOLOGY, Stand, standing

FEW_THREADS = 1
"""Where a transaction waits for the device and not for the one CPU: the paper's gain is at few threads."""
THREADS = (1, 2, 4, 8, 16, 32)
"""The paper goes to 152 on 40 hardware threads; a guest of User-Mode Linux has one."""
ROUNDS = 3
SECONDS = {Tier.QUICK: WARM_S + 4, Tier.FULL: WARM_S + 8}
"""Of one run, of which the first WARM_S do not count."""
PAPER_TURN = 116
"""Threads from which the paper's throughput was better without dm-cache."""

GAIN = "the paper found more transactions with the cache at few threads"
UNJUDGED = "the paper has figures of other machines: written down, not judged"


def note_gain(recorder: Recorder, what: str, values: Mapping[bool, Sequence[float]], *, judged: bool) -> float:
    """Note a gain as a figure, judged or not; its lower end. values: seconds with the cache (True) and without."""
    found = ratio_of_means(values[True], values[False])
    recorder.record(
        "figure",
        what=what,
        value=found.mean,
        low=found.low,
        high=min(found.high, 1e9),
        unit="times as many transactions as without",
        least=1.0 if judged else None,
        most=None,
        why=GAIN if judged else UNJUDGED,
    )
    return found.low


def in_turns(stand: Stand, stage: Stage, mode: Mode, threads: int, rounds: int) -> dict[bool, list[float]]:
    """Seconds of runs with a fresh cache (True) and without one, in turns."""
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


def gain(stage: Stage, mode: Mode) -> None:
    """One mode beside no cache, at few threads. Only writeback is judged: the paper has no other."""
    with standing(stage) as stand:
        begin(stand, stage)
        found = in_turns(stand, stage, mode, FEW_THREADS, ROUNDS)
        note_gain(stage.recorder, f"{mode}, {FEW_THREADS} thread", found, judged=mode is Mode.WRITEBACK)


def sweep(stage: Stage) -> None:
    """Writeback beside no cache over the thread counts; where the gain ends."""
    turn = 0
    with standing(stage) as stand:
        begin(stand, stage)
        for threads in THREADS:
            few = threads == FEW_THREADS
            found = in_turns(stand, stage, Mode.WRITEBACK, threads, ROUNDS if few else 1)
            low = note_gain(stage.recorder, f"writeback, {threads} threads", found, judged=few)
            if low < 1 and not turn:
                turn = threads
    note_turn(stage.recorder, turn)


def note_turn(recorder: Recorder, turn: int) -> None:
    """Note the least thread count at which no gain was shown; 0: there was one at every count."""
    beyond = f"a gain at every count up to {THREADS[-1]}; " if not turn else ""
    recorder.record(
        "figure",
        what="threads from which no gain is shown, 0 for none",
        value=turn,
        low=turn,
        high=turn,
        unit="threads",
        least=None,
        most=None,
        why=f"{beyond}the paper's is {PAPER_TURN} on two processors of ten cores",
    )


def begin(stand: Stand, stage: Stage, rows: int | None = None) -> None:
    """A database on the origin alone, filled; then the origin gets its class."""
    stand.plain()
    stand.new_database()
    wanted = job(stand, stage) if rows is None else job(stand, stage, rows=rows)
    sysbench.prepare(stand.host, wanted)
    stand.impose()


SCENARIOS = (
    *(
        Scenario(
            name=f"dmcache.gain[{mode}]",
            goal=f"At few threads dm-cache in {mode} mode commits more transactions than a slow origin alone.",
            method="sysbench on MariaDB with a fresh cache and without one, in turns; the ratio by interval.",
            run=partial(gain, mode=mode),
            check="figures",
            tier=Tier.QUICK if mode is Mode.WRITEBACK else Tier.FULL,
            topology=TOPOLOGY,
            needs=NEEDS,
        )
        for mode in Mode
    ),
    Scenario(
        name="dmcache.threads",
        goal="The gain of a writeback cache over a sweep of threads, and the count from which there is none.",
        method="sysbench on MariaDB with a fresh cache and without one at each count; ratios by interval.",
        run=sweep,
        check="figures",
        tier=Tier.FULL,
        topology=TOPOLOGY,
        needs=NEEDS,
    ),
)
