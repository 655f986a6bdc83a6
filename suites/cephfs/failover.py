"""Metadata server failover under a recorded load of files, to a standby of the other architecture."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.faults.fault import look_for
from cephlab.lab.history.history import Basis, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.services.mds import FILE_SYSTEM, states
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.cephfs.scrub import scrubbed
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, served_by, tell, wait_active
from cephlab.suites.expected import PEERS_MISSED
from cephlab.suites.limits import no_errors
from cephlab.suites.resilience.trial import goes_on, under_way

KEYS, WORKERS, PAUSE_S = 16, 3, 0.02
SIZES = (4096, 65536)
REPLAY_S = 6.0
"""Time for the monitors to publish a map, and for the standby to replay, reconnect and rejoin, before patience.

Measured on a very busy machine: the monitors were 3.6 s late, the standby took 1 to 3 s.
"""
REPLAYING = "up:standby-replay"
FOLLOWED = 10
"""Journal events. A load of files makes many more in the time that a standby takes to look for new ones (a second)."""


def load_of(stage: Stage, name: str, on: tuple[str, ...] = ()) -> RecordedLoad:
    """A load of files from clients on these nodes; by default one of each architecture, on the nodes of the MDSs."""
    cluster = stage.cluster
    nodes = on or tuple(cluster.host_with(arch).name for arch in Arch)
    seed = stage.rng.randrange(1 << 30)
    load = Load(
        FILE_SYSTEM, nodes, seed, name=name, kind="files", keys=KEYS, workers=WORKERS, sizes=SIZES, pause_s=PAUSE_S
    )
    return RecordedLoad(cluster, stage.recorder, load)


def limit_gap(recorder: Recorder, cluster: Cluster, *, stop_s: float = 0.0) -> None:
    """Limit how long clients are not served: until the monitors notice and the standby has taken over.

    stop_s: how long a server may take to stop before that.
    """
    mon = next(name for name in cluster.daemons if name.startswith("mon."))
    grace, tick = (float(told(cluster, mon, name)) for name in ("mds_beacon_grace", "mon_tick_interval"))
    why = f"mds_beacon_grace {grace:g} s, mon_tick_interval {tick:g} s, then {REPLAY_S:g} s times {cluster.patience:g}"
    why = f"{stop_s:g} s to stop, {why}" if stop_s else why
    high = stop_s + grace + tick + REPLAY_S * cluster.patience
    recorder.limit("longest_gap_s", high, "s", why, basis=Basis.CORRECTNESS)


def told(cluster: Cluster, daemon: str, setting: str) -> str:
    """The value of a setting in a daemon."""
    return str(json.loads(cluster.client.command(daemon, "config get", var=setting))[setting])


@contextmanager
def loaded(stage: Stage, name: str) -> Iterator[RecordedLoad]:
    """Run the load during the block; afterwards read every file back, and scrub the file system."""
    no_errors(stage.recorder, "clients wait for the next metadata server")
    limit_gap(stage.recorder, stage.cluster)
    load = load_of(stage, name)
    load.prepare()
    with load.running():
        under_way(load)
        yield load
        goes_on(load)
    load.verify()
    scrubbed(stage)


def kill_active(stage: Stage, load: RecordedLoad, victim: str) -> str:
    """Kill the active server, wait until the standby serves, restart the dead one; returns the new active server."""
    cluster = stage.cluster
    with inflict(KillDaemon(victim), cluster, stage.recorder):
        [successor] = wait_active(cluster, but=victim)
        goes_on(load)
    arch = cluster.host_of(successor).arch
    what = f"architecture that serves after {victim} of {cluster.host_of(victim).arch}"
    stage.recorder.observe(what, got=arch.value, wanted=cluster.host_of(victim).arch.other.value)
    cluster.wait_healthy()
    return successor


def failover(stage: Stage) -> None:
    """Fail over to the other architecture, and back."""
    server = served_by(stage.cluster, host_arch())
    with loaded(stage, "failover") as load:
        for _ in Arch:
            server = kill_active(stage, load, server)


def standby_replay(stage: Stage) -> None:
    """As `failover`, with a standby-replay server, which follows the journal."""
    cluster = stage.cluster
    server = served_by(cluster, host_arch())
    cluster.client.mon("fs set", fs_name=FILE_SYSTEM, var="allow_standby_replay", val="true")
    with loaded(stage, "replay") as load:
        for _ in Arch:
            follows(stage)
            server = kill_active(stage, load, server)


def replaying(cluster: Cluster) -> list[str]:
    return [ident for ident, state in states(cluster.client).items() if state == REPLAYING]


def follows(stage: Stage) -> None:
    """Wait until a standby is to follow the journal, and witness that it does: its state alone does not show that."""
    cluster = stage.cluster
    cluster.wait(lambda _: bool(replaying(cluster)), what="a standby-replay server")
    before = replayed(cluster)
    sign = look_for(
        "journal events that the standby replays while clients write",
        lambda: replayed(cluster) - before,
        least=FOLLOWED,
        patience=cluster.patience,
    )
    stage.recorder.witness(sign.what, got=sign.got, least=sign.least)


def replayed(cluster: Cluster) -> int:
    """Journal events that standby-replay servers have replayed since they started."""
    dumps = [tell(cluster, f"mds.{ident}", "perf", "dump") for ident in replaying(cluster)]
    return sum(int(dump["mds_log"]["replayed"]) for dump in dumps)


EXPECTS = {**EXPECTED, **PEERS_MISSED}

SCENARIOS = (
    Scenario(
        name="cephfs.failover",
        goal="When a metadata server dies, one of the other architecture takes over, and no synced file is lost.",
        method="Kills the active server, then its successor, while clients of both architectures write, sync and "
        "rename files; reads all back; scrubs.",
        run=failover,
        check="recorded",
        topology=PAIR,
        expects=EXPECTS,
    ),
    Scenario(
        name="cephfs.standby-replay",
        goal="Failover to a standby-replay server of the other architecture loses no synced file.",
        method="As cephfs.failover, with allow_standby_replay.",
        spoils=True,
        run=standby_replay,
        check="recorded",
        tier=Tier.FULL,
        topology=PAIR,
        expects=EXPECTS,
    ),
)
