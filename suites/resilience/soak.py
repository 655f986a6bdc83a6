"""Fault after fault for a given time, chosen by the seed: the same seed gives the same schedule."""

from functools import partial

from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults import FAULTS, Fault, layout_of, plan, refusal, thrash
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.suites.asked import minutes
from cephlab.suites.resilience.trial import DAMAGED, EXPECTED, PAUSED, loaded, scenario_under_load

MINUTES_VARIABLE = "CEPHLAB_SOAK_MINUTES"
"""Environment variable with the length of a soak in minutes, instead of the tier's."""
MINUTES = {Tier.QUICK: 0.5, Tier.FULL: 10.0}
LEAST_STEPS = 2
DOMAINS_WITHOUT_SERVICE = 2
"""Failed nodes, of three. The majority is down, so that clients have to wait, but no acknowledged write may be lost."""

EXCEED = ("kill-daemon", "stop-daemon", "pause-daemon", "kill-together", "kill-node")
"""Kinds of fault for several domains at a time: they can be detected and healed without a working cluster."""


def soak(stage: Stage, domains: int) -> None:
    """Thrash a cluster under a recorded load."""
    cluster = stage.cluster
    menu = menu_for(cluster, domains)
    steps = plan(layout_of(cluster), stage.rng, menu, domains=domains)
    with loaded(stage):
        steps_done = thrash(cluster, stage.recorder, steps, seconds=lasts_s(stage.tier), least=LEAST_STEPS)
    stage.recorder.witness("steps of the schedule", got=steps_done, least=LEAST_STEPS)


def lasts_s(tier: Tier) -> float:
    """How long faults are inflicted, in seconds."""
    return 60 * minutes(MINUTES_VARIABLE, MINUTES[tier])


def menu_for(cluster: Cluster, domains: int) -> list[type[Fault]]:
    """Every kind of fault that can be inflicted on a cluster, in a fixed order."""
    possible = [kind for kind in FAULTS.values() if refusal(kind, cluster) is None]
    return possible if domains == 1 else [kind for kind in possible if kind.name in EXCEED]


SCENARIOS = (
    scenario_under_load(
        name="resilience.thrash",
        goal="A cluster survives fault after fault, one failure domain at a time, and is healthy after each.",
        method=f"Follows a schedule from the seed for {MINUTES_VARIABLE} minutes of a recorded load; reads all back.",
        run=partial(soak, domains=1),
        lasts_s=lasts_s,
        expects={**EXPECTED, **PAUSED, **DAMAGED},
    ),
    scenario_under_load(
        name="resilience.thrash-beyond",
        goal="With too many nodes down to serve I/O, clients wait, and no acknowledged write is lost.",
        method=f"Follows a schedule from the seed that hits up to {DOMAINS_WITHOUT_SERVICE} of three nodes at a time.",
        run=partial(soak, domains=DOMAINS_WITHOUT_SERVICE),
        lasts_s=lasts_s,
        tier=Tier.FULL,
        expects={**EXPECTED, **PAUSED},
    ),
)
