"""Every daemon of the cluster is killed at once while clients write, again and again."""

from functools import partial

from cephlab.lab.faults import layout_of
from cephlab.lab.faults.daemons import KillEverything
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.workloads.recorded import Kind
from cephlab.suites.asked import count
from cephlab.suites.resilience.trial import Data, again_and_again, linger, scenario_under_load

ROUNDS_VARIABLE = "CEPHLAB_CRASH_ROUNDS"
"""Environment variable that replaces the tier's number of rounds, so that several runs can share fifty rounds."""
ROUNDS = {Tier.QUICK: 2, Tier.FULL: 50}
BEFORE_S = (0.2, 2.0)
DARK_S = (0.0, 1.0)
MEDIAN = Bound("recorded only: the limit applies to the longest return", basis=Basis.NOTED)


def crash(stage: Stage, of: Kind = "objects") -> None:
    """Kill every daemon and start all of them again after a random time; repeat."""
    times_s = crashes(stage, asked(stage.tier), of)
    stage.recorder.figure("median_return_s", sorted(times_s)[len(times_s) // 2], "s", MEDIAN)


def crashes(stage: Stage, wanted: int, of: Kind = "objects") -> list[float]:
    """Kill every daemon `wanted` times at random moments of a load; returns the seconds to health after each kill."""
    everything = KillEverything.aim(layout_of(stage.cluster), stage.rng)
    dark = partial(linger, stage.rng, *DARK_S)
    return again_and_again(stage, everything, wanted, Data(of=of), before_s=BEFORE_S, meanwhile=dark)


def asked(tier: Tier) -> int:
    """The number of rounds that the environment asks for, else the tier's."""
    return count(ROUNDS_VARIABLE, "rounds", ROUNDS[tier])


SCENARIOS = (
    scenario_under_load(
        name="resilience.crash-everything",
        goal="When all daemons crash at once while clients write, no acknowledged write is lost and Ceph recovers.",
        method="Kills all daemons at random moments of a recorded load, restarts them, waits for health, reads back.",
        run=crash,
        asked=asked,
    ),
    scenario_under_load(
        name="resilience.crash-everything[load=blocks]",
        goal="When all daemons crash at once while clients write to an RBD image, no acknowledged block is lost.",
        method="As crash-everything, but clients write uncached 4 KiB blocks of an RBD image instead of objects.",
        run=partial(crash, of="blocks"),
        asked=asked,
        tier=Tier.FULL,
    ),
)
