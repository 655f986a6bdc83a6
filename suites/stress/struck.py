"""The stress load while one OSD after the other fails: clients see no error, and each goes on to its end."""

import time
from collections.abc import Sequence
from dataclasses import replace

from cephlab.lab.faults import Fault, Layout, layout_of, plan, thrash
from cephlab.lab.faults.daemons import KillDaemon, PauseDaemon, StopDaemon
from cephlab.lab.history.history import Recorder, data_of
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.services.osd import OSD
from cephlab.lab.workloads.fio import RunningProgram
from cephlab.suites.resilience.trial import EXPECTED, PAUSED, RETURN_S, agreed
from cephlab.suites.stress import mixed, series
from cephlab.suites.stress.length import Length, lasts_s, length_of

MENU: tuple[type[Fault], ...] = (KillDaemon, StopDaemon, PauseDaemon)
LEAST_STEPS = 2
CALM_SHARE, MOST_CALM_S = 0.25, 60.0
"""The end of the load's time, without faults: each client has to go on in it."""
_RATE = ": rate"


def struck(stage: Stage) -> None:
    """Make OSDs fail under the load; observe that every client went on and all copies agree."""
    length = length_of(lasts_s(stage.tier))
    last_heal_s = 0.0

    def strike(stage: Stage, running: Sequence[RunningProgram], length: Length) -> series.Values:
        nonlocal last_heal_s
        cluster, began_s = stage.cluster, time.time()
        calm_s = min(MOST_CALM_S, CALM_SHARE * length.seconds)
        steps = plan(osds_of(layout_of(cluster)), stage.rng, MENU)
        steps_done = thrash(cluster, stage.recorder, steps, seconds=length.seconds - calm_s, least=LEAST_STEPS)
        last_heal_s = time.time() - began_s
        stage.recorder.witness("steps of the schedule", got=steps_done, least=LEAST_STEPS)
        for program in running:
            program.process.wait(calm_s + mixed.MARGIN_S * cluster.patience)
        cluster.wait_healthy(RETURN_S)
        agreed(stage, mixed.POOL)
        return {}

    mixed.run(stage, length, meanwhile=strike)
    went_on(stage.recorder, last_heal_s)


def osds_of(layout: Layout) -> Layout:
    """A layout with OSDs only: a gateway that dies would refuse its clients."""
    nodes = {
        node: tuple(name for name in names if name in layout.daemons(OSD.kind)) for node, names in layout.nodes.items()
    }
    return replace(layout, nodes=nodes)


def went_on(recorder: Recorder, after_s: float) -> None:
    """Observe that each client did operations after the last fault was healed.

    after_s: since the load began.
    """
    readings = data_of(recorder.events(), "reading")
    # A client whose log has no whole window has no reading either, and would not be missed.
    known = [f"{event.data['job']}{_RATE}" for event in recorder.events() if event.kind == "calibrated"]
    jobs = dict.fromkeys([*known, *(name for data in readings for name in data["values"] if name.endswith(_RATE))])
    for job in jobs:
        rates = [data["values"][job] for data in readings if data["at_s"] > after_s and job in data["values"]]
        whose = job.removesuffix(_RATE)
        recorder.witness(f"looks at {whose} after the last fault", got=len(rates), least=1)
        if rates:
            recorder.observe(f"{whose} goes on after the last fault", got=any(rates), wanted=True, of=len(rates))


SCENARIOS = (
    mixed.scenario_of_hours(
        name="stress.struck",
        goal="When OSDs fail one by one in hours of load, clients see no error and all go on.",
        method="Again and again kills, stops or pauses an OSD, by a schedule from the seed; deep-scrubs at the end.",
        run=struck,
        check="witnessed",
        tier=Tier.FULL,
        lasts_s=lasts_s,
        expects={**EXPECTED, **PAUSED},
        sees=("steps of the schedule", ".* goes on after the last fault"),
    ),
)
