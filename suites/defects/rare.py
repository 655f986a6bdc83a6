"""Defects that need a cluster at work, and are seen in some tries only: each is tried a few times."""

import os
from collections.abc import Callable
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.base.errors import DaemonDied, NotReached, SpecError
from cephlab.lab.ceph.daemon import STOP_S
from cephlab.lab.checks.survival import survival
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.report.defects import SUITE, Defect
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import PLAIN, Topology
from cephlab.suites.cephfs.failover import load_of
from cephlab.suites.cephfs.stand import EXPECTED as FILES_EXPECTED
from cephlab.suites.cephfs.stand import wait_active
from cephlab.suites.defects.shown import FILE_SYSTEM, KNOWN, SEES, WITH_FILES, meet, tried
from cephlab.suites.expected import DEAD_COUNT, HEALTH_TOLD, MON_TERMINATED, PEERS_MISSED
from cephlab.suites.interop import monitors
from cephlab.suites.interop.messenger import COMPRESSED, await_option
from cephlab.suites.resilience.crash import crashes
from cephlab.suites.resilience.monitors import rebuild_from_osds
from cephlab.suites.resilience.trial import EXPECTED, LEAST_OPERATIONS, RETURN_S, THREE, new_load, under_way

TRIES_VARIABLE = "CEPHLAB_DEFECT_TRIES"
"""Environment variable with the number of tries of each scenario here, instead of 3."""
TRIES = 3
DAMAGED = {r"bad crc32c": "Blocks that the defect has written over, which the scenario looks for."}
REFUSED = {r"cephx: .*could not decrypt ticket info": "Older clients come with tickets of keys that are gone."}
HUNG_S = 30.0
"""A client that has done nothing for so long on a healthy cluster hangs; others go on within a second."""
DOWN_S = 30.0
"""Three times osd_heartbeat_grace, after which other OSDs report one that they know of."""

Try = Callable[[Stage], tuple[bool | None, str]]
"""One try: whether the defect was seen, None where it could not tell, and what was."""


def try_often(stage: Stage, defect: Defect, once: Try) -> None:
    """Try a number of times, and note each. What was seen in every try so far is tried once."""
    meet(stage, defect)
    text = os.environ.get(TRIES_VARIABLE)
    for _ in range(1 if text is None and defect.seen == defect.of else tries(text)):
        seen, said = once(stage)
        tried(stage, seen=seen, said=said)


def tries(text: str | None) -> int:
    """The number of tries; SpecError where the environment variable holds no such number."""
    if text is None:
        return TRIES
    if not text.isdecimal() or int(text) < 1:
        raise SpecError(f"{TRIES_VARIABLE} is no number of tries", f"got {text!r}, wanted 1 or more", "leave it out")
    return int(text)


def cancelled_tick(stage: Stage) -> tuple[bool, str]:
    """Empty a monitor's store, let it come back, and ask whether it gives new clients their ids."""
    cluster = stage.cluster
    victim = stage.rng.choice(monitors.monitors(cluster))
    cluster.stop(victim)
    monitors.in_quorum(cluster, [name.partition(".")[2] for name in monitors.monitors(cluster) if name != victim])
    monitors.wiped(stage, victim)
    monitors.start(cluster, victim)
    if monitors.gives_ids(cluster, victim):
        return False, f"{victim} came back with an empty store and gave a new client its id"
    cluster.stop(victim)
    monitors.start(cluster, victim)
    return True, f"{victim} was in the quorum and gave no new client an id until it was started anew"


def compressors_at_once(stage: Stage) -> tuple[bool, str]:
    """Start all OSDs anew, so that their first links load the compressor at the same time."""
    cluster = stage.cluster
    options = {**COMPRESSED, "ms_osd_compression_algorithm": "zlib"}
    osds = [f"osd.{osd}" for osd in cluster.osd_ids()]
    try:
        for key, value in options.items():
            cluster.client.mon("config set", who="osd", name=key, value=value)
        for osd in osds:
            await_option(cluster, osd, options)
        restart(cluster, osds)
        cluster.wait_healthy(RETURN_S)
    except DaemonDied as died:
        cluster.daemon(died.daemon).host.remove(cluster.daemon(died.daemon).host.directory / "crash")
        cluster.daemon(died.daemon).host.make_directory(cluster.daemon(died.daemon).host.directory / "crash")
        cluster.start(died.daemon)
        seen, said = True, f"{died.daemon} ended: {died.what}"
    else:
        seen, said = False, f"{len(osds)} OSDs started together with compressed links and stayed"
    finally:
        for key in options:
            cluster.client.mon("config rm", who="osd", name=key)
    cluster.wait_healthy(RETURN_S)
    return seen, said


def restart(cluster: Cluster, osds: list[str]) -> None:
    """Stop all OSDs, then start all."""
    for osd in osds:
        cluster.kill(osd)
    for osd in osds:
        cluster.start(osd)


def rebuilt_under_clients(stage: Stage) -> tuple[bool, str]:
    """Rebuild the monitors' store under clients, and ask whether these go on once the cluster is healthy."""
    cluster = stage.cluster
    with pools.pool(cluster, "rebuilt", pg_num=8) as pool:
        load = new_load(stage, pool)
        load.prepare()
        with load.running():
            under_way(load)
            rebuild_from_osds(cluster)
            cluster.wait(lambda status: status.all_up, what="every OSD up", timeout_s=RETURN_S)
            cluster.wait_healthy(RETURN_S)
            before, timeout_s = load.completed(), HUNG_S * cluster.patience
            try:
                clock.wait(
                    load.completed,
                    lambda done: done >= before + LEAST_OPERATIONS,
                    what="operations of clients that were at work before",
                    timeout_s=timeout_s,
                )
            except NotReached as stuck:
                seen, said = True, f"clients did {int(stuck.last) - before} operations in {timeout_s:.0f} s"
            else:
                seen, said = False, "clients went on"
    return seen, said


def late_deferred(stage: Stage) -> tuple[bool | None, str]:
    """Crash every daemon at once under a load of objects, and look for acknowledged writes that are gone."""
    before = len(stage.recorder.events())
    try:
        crashes(stage, 1)
    except DaemonDied as died:
        return True, f"{died.daemon} ended once all had crashed: {died.what}"
    verdict = survival(stage.recorder.events()[before:])
    told = {Outcome.FAIL: True, Outcome.PASS: False}
    return told.get(verdict.outcome), f"after a crash of every daemon: {verdict.reason}"


def stopped_as_it_boots(stage: Stage) -> tuple[bool, str]:
    """Start an OSD without work anew, stop it as soon as the map calls it up, and ask whether the map calls it down."""
    cluster = stage.cluster
    osd = cluster.daemon(f"osd.{stage.rng.choice(cluster.osd_ids())}")
    cluster.stop(osd.name)
    cluster.start(osd.name)
    clock.wait(
        cluster.up_osds, lambda up: int(osd.id) in up, what=f"{osd.name} up", timeout_s=RETURN_S, interval_s=0.002
    )
    osd.stop()  # a cluster's own `stop` waits until the OSD knows that it is up
    try:
        clock.wait(cluster.up_osds, lambda up: int(osd.id) not in up, what=f"{osd.name} down", timeout_s=DOWN_S)
    except NotReached:
        seen, said = True, f"{osd.name} had ended, and was up in the map {DOWN_S:g} s later"
    else:
        seen, said = False, f"{osd.name} ended and was down in the map"
    cluster.start(osd.name)
    cluster.wait_healthy(RETURN_S)
    return seen, said


def server_that_stays(stage: Stage) -> tuple[bool, str]:
    """Stop the metadata server under files that are replaced all the time, and ask whether it ends."""
    cluster = stage.cluster
    [name] = wait_active(cluster)
    load = load_of(stage, f"stop{stage.rng.randrange(1 << 31)}", (cluster.client.host.name,))
    load.prepare()
    with load.running():
        under_way(load)
        stays = not cluster.stop_or_kill(name)
        cluster.start(name)
        cluster.wait_healthy(RETURN_S)
    return stays, f"{name} {'had not ended' if stays else 'ended'} within {STOP_S:g} s of SIGTERM"


def scenario(name: str, once: Try, topology: Topology, expects: dict[str, str]) -> Scenario:
    defect = KNOWN[name]
    return Scenario(
        name=f"{SUITE}.{name}",
        goal=f"What is known of this defect holds for this Ceph: {defect.title.rstrip('.')}.",
        method=f"{(once.__doc__ or '').strip()} Known: seen in {defect.seen} of {defect.of} tries.",
        run=partial(try_often, defect=defect, once=once),
        check="defect",
        tier=Tier.FULL,
        topology=topology,
        expects=expects,
        spoils=True,
        sees=SEES,
    )


SCENARIOS = (
    scenario(
        "monitor-cancels-tick",
        cancelled_tick,
        Topology(native=3, foreign=0, mons=3, options=monitors.TOPOLOGY.options),
        {**monitors.EXPECTED, **MON_TERMINATED},
    ),
    scenario("compressors-at-once", compressors_at_once, PLAIN, {**HEALTH_TOLD, **DEAD_COUNT, **PEERS_MISSED}),
    scenario("osd-stopped-booting", stopped_as_it_boots, Topology(native=3, foreign=0), EXPECTED),
    scenario("late-deferred-writes", late_deferred, THREE, {**EXPECTED, **DAMAGED}),
    scenario("mds-stop-hangs", server_that_stays, WITH_FILES, {**FILE_SYSTEM, **FILES_EXPECTED}),
    scenario("clients-hang-on-rebuild", rebuilt_under_clients, THREE, {**EXPECTED, **REFUSED}),
)
