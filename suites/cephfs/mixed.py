"""CephFS and faults of the whole cluster: files through a power cut of all machines, and through many faults."""

from dataclasses import replace

from cephlab.lab.faults import aimed, inflict, layout_of, plan, thrash
from cephlab.lab.faults.power import PowerCut
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.cephfs.failover import load_of
from cephlab.suites.cephfs.mounted import GUESTS
from cephlab.suites.cephfs.scrub import scrubbed
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, wait_active
from cephlab.suites.limits import no_errors
from cephlab.suites.powerloss.cut import BEFORE_S, ROUNDS, check_stores
from cephlab.suites.resilience import soak
from cephlab.suites.resilience.trial import EXPECTED as RESILIENT
from cephlab.suites.resilience.trial import PAUSED, RETURN_S, goes_on, linger, under_way

STRUCK = replace(GUESTS, native=1, foreign=1)
"""An OSD and a metadata server of each architecture lose their power; the clients' machine is native."""
MENU = ("kill-daemon", "stop-daemon", "pause-daemon", "kill-together")
"""Faults of daemons. Other faults damage objects in their own pools, which no metadata server reads."""


def power_cut(stage: Stage) -> None:
    """Cut the power of all machines with daemons under a load of files; check the stores; read back and scrub."""
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "clients wait for a cluster that is down")
    power = aimed(PowerCut, cluster, stage.rng)
    load = load_of(stage, "power", (cluster.client.host.name,))
    load.prepare()
    for _ in range(ROUNDS[stage.tier]):
        with load.running():
            under_way(load)
            linger(stage.rng, *BEFORE_S)
            with inflict(power, cluster, recorder):
                power.switch_on(cluster)
                check_stores(stage, cluster)
            wait_active(cluster)
            cluster.wait_healthy(RETURN_S)
            goes_on(load)
        load.verify()
    scrubbed(stage)


def thrashed(stage: Stage) -> None:
    """Kill, stop and pause daemons of every kind under a load of files, then scrub."""
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "clients wait for the next server")
    menu = [kind for kind in soak.menu_for(cluster, 1) if kind.name in MENU]
    seconds = soak.lasts_s(stage.tier)
    load = load_of(stage, "soak")
    load.prepare()
    with load.running():
        under_way(load)
        steps = plan(layout_of(cluster), stage.rng, menu)
        steps_done = thrash(cluster, recorder, steps, seconds=seconds, least=soak.LEAST_STEPS)
        recorder.witness("steps of the schedule", got=steps_done, least=soak.LEAST_STEPS)
        wait_active(cluster)
        cluster.wait_healthy()
        goes_on(load)
    load.verify()
    scrubbed(stage)


EXPECTS = {**EXPECTED, **RESILIENT}
PAUSED_SERVERS = {
    r"heartbeat_map (is_healthy|reset_timeout) 'MDSRank' had timed out after": (
        "The schedule paused the metadata server in the middle of a request."
    ),
}

SCENARIOS = (
    Scenario(
        name="cephfs.power-cut",
        goal="When all machines lose power, nothing that was synced to CephFS is lost, and the tree is undamaged.",
        method="Kills every guest with daemons at once while files are written, synced and renamed; checks each store "
        "with fsck; starts the guests; reads back; scrubs.",
        run=power_cut,
        check="recorded",
        topology=STRUCK,
        needs=frozenset({Capability.POWER_CUT, Capability.OWN_KERNEL}),
        sees=("fsck of .* after the power was cut",),
        expects=EXPECTS,
    ),
    Scenario(
        name="cephfs.soak",
        goal="CephFS loses nothing through fault after fault of monitors, OSDs and metadata servers.",
        method=f"Follows a schedule from the seed for {soak.MINUTES_VARIABLE} minutes of load; reads back; scrubs.",
        run=thrashed,
        check="recorded",
        tier=Tier.FULL,
        topology=PAIR,
        expects={**EXPECTS, **PAUSED, **PAUSED_SERVERS},
        spoils=True,
        lasts_s=soak.lasts_s,
    ),
)
