"""Every kind of fault, one at a time, under a load: it happens, it heals, and no acknowledged write is lost."""

from collections.abc import Mapping
from functools import partial

from cephlab.lab.faults import FAULTS, Fault, aimed, inflict
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.suites.resilience.trial import DAMAGED, EXPECTED, PAUSED, linger, loaded, scenario_under_load

QUICK = ("kill-daemon", "partition", "read-errors", "clock-skew")
"""One fault of each sort. The others are as quick, but all of them together would take too long."""

SAID: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("bit-rot", "missing-object", "read-errors"), DAMAGED),
    "pause-daemon": PAUSED,
}
"""Log messages that some faults cause in addition to those that every fault may cause."""

HOLD_S = (1.0, 3.0)


def suffer(stage: Stage, kind: type[Fault]) -> None:
    """Inflict one fault of a kind, at a target chosen by the seed, for a while."""
    cluster = stage.cluster
    fault = aimed(kind, cluster, stage.rng)
    with loaded(stage), inflict(fault, cluster, stage.recorder):
        linger(stage.rng, *HOLD_S)


def scenario(kind: type[Fault]) -> Scenario:
    described = (kind.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()
    return scenario_under_load(
        name=f"resilience.fault[{kind.name}]",
        goal=f"{described} The cluster recovers by itself, and no acknowledged write is lost.",
        method="Inflicts the fault under a recorded load, looks for its sign, heals it, waits for health, reads back.",
        run=partial(suffer, kind=kind),
        sees=(f"{kind.name} of .*", "operations since the load was under way"),
        tier=Tier.QUICK if kind.name in QUICK else Tier.FULL,
        needs=kind.needs,
        expects={**EXPECTED, **SAID.get(kind.name, {})},
    )


SCENARIOS = tuple(scenario(kind) for kind in FAULTS.values())
