"""A random walk over CephFS in which metadata servers crash and clients are evicted: living clients lose nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.services.mds import states
from cephlab.suites.cephfs.failover import EXPECTS
from cephlab.suites.cephfs.model import EXCLUSIVE
from cephlab.suites.cephfs.scrub import scrubbed
from cephlab.suites.cephfs.stand import PAIR, TAKE_OVER_S, rank, wait_active
from cephlab.suites.cephfs.walk import OWNERS, Drawn, WalkModel, walk_names
from cephlab.suites.interop.walks.live import LOOK_EVERY, Line, lines, walk
from cephlab.suites.interop.walks.scenarios import FULL_STEPS, clients, walking_on
from cephlab.suites.interop.walks.walk import Unfit

MOVES = 0.03
"""The share of steps that end a metadata server or evict a client."""
PROBES = 0.03
"""The share of steps that ask for a whole file of which a part is locked: others rarely tell whether a lock is lost."""
KILL, FAIL = "kill", "fail"
LEAST_MOVED = 3
"""Servers that took over in a walk. A walk of 600 steps draws 12 on average."""


class MovedModel(WalkModel):
    """The model for walks in which metadata servers crash, and clients are evicted after they synced.

    A crash changes nothing: the clients repeat what the server had not written to its journal, and tell the next server
    what they hold. A client that is evicted loses its open files and its locks.

    It leaves out what Ceph is known to get wrong then: no file has stripes (`libcephfs-striped-size`), nothing below a
    snapshot gets another name or loses one (`libcephfs-renamed-snapshot`), and no client is evicted that has a file
    open whose time was set (`libcephfs-evicted-time`).
    """

    def draw(self, rng: Random) -> Drawn:
        if rng.random() < MOVES:
            steps: list[Drawn] = [*(("fail", {"how": how}) for how in (KILL, FAIL)), ("evict", {})]
            return rng.choice(steps)
        locked = [path for path, inode in self.root.tree() if any(inode.ranges.values())]
        if locked and rng.random() < PROBES:
            whole = {"start": 0, "length": 0, "owner": rng.choice(OWNERS)}
            return "range", {"path": rng.choice(locked), "kind": EXCLUSIVE, **whole}
        operation, arguments = super().draw(rng)
        return operation, {**arguments, **({"count": 1} if "count" in arguments else {})}

    def do_fail(self, how: str) -> None:
        """A metadata server ends, and another takes over while the walk goes on."""

    def do_evict(self) -> None:
        """The side's client syncs everything, dies and is evicted; another takes its place.

        Unfit if it has a file open whose time of change was set: `libcephfs-evicted-time`.
        """
        own = [handle.inode for (side, _), handle in self.handles.items() if side == self.side]
        if any(inode.times[1] is not None for inode in (*own, *self.ranged)):
            raise Unfit
        for side, slot in list(self.handles):
            if side == self.side:
                self.do_shut(slot)
        for inode in self.ranged:
            for owner in OWNERS:
                inode.ranges.pop((self.side, owner), None)

    def do_rename(self, path: str, to: str) -> None:
        self.beside_snapshots(path, to)
        super().do_rename(path, to)

    def do_unlink(self, path: str) -> None:
        self.beside_snapshots(path)
        super().do_unlink(path)

    def beside_snapshots(self, *paths: str) -> None:
        """Unfit for a path that is below a directory with snapshots."""
        above = tuple(f"{path}/" if path else "" for path, inode in self.root.tree_with_itself() if inode.snaps)
        if any(path.startswith(above) for path in paths):
            raise Unfit


@dataclass(frozen=True)
class Failing(Line):
    """A side whose cluster belongs to the lab, so that a metadata server can really crash, and a client be evicted."""

    cluster: Cluster

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        if operation == "fail":
            return end_active(self.cluster, arguments["how"])
        if operation == "evict":
            return self.evict()
        return super().ask(operation, arguments)

    def evict(self) -> None:
        """Kill the client after a sync, evict it, and start another in its place."""
        wait_active(self.cluster)  # a server that is taking over would wait for the dead client
        synced = super().ask("synced", {})
        with suppress(CommandFailed):
            super().ask("die", {})
        for number in synced["mounts"]:
            argv = ("ceph", "tell", rank(0), "session", "evict", f"id={number}")
            self.cluster.tool(self.cluster.client.host.name, *argv)
        self.begin(synced["place"])


def end_active(cluster: Cluster, how: str) -> None:
    """End the active server, and wait until the other one got its rank, but not until that serves.

    The monitors are told, because they would take a while to notice. A server that is to fail hangs, so that it does
    not learn of it: an emulated one cannot start itself again (docs/cephfs.md).
    """
    [name] = wait_active(cluster)
    waits(cluster, lambda: "up:standby" in states(cluster.client).values(), "a metadata server that stands by")
    before = incarnation(cluster)
    if how == FAIL:
        cluster.pause(name)
    else:
        cluster.kill(name)
    cluster.client.mon("mds fail", role_or_gid="0")
    waits(cluster, lambda: incarnation(cluster) > before, f"another metadata server than {name}")
    if how == FAIL:
        cluster.kill(name)
    cluster.start(name)


def waits(cluster: Cluster, ready: Callable[[], bool], what: str) -> None:
    clock.wait(ready, bool, what=what, timeout_s=TAKE_OVER_S * cluster.patience, interval_s=0.2)


def incarnation(cluster: Cluster) -> int:
    """How often the rank got a server since the file system was made; 0 while it has none."""
    [system] = cluster.client.mon("fs dump")["filesystems"]
    return max((info["incarnation"] for info in system["mdsmap"]["info"].values() if info["rank"] == 0), default=0)


def walked(stage: Stage) -> None:
    """Run random steps, some of which end the active metadata server; scrub."""
    cluster = stage.cluster
    wait_active(cluster)
    before = incarnation(cluster)
    with lines("cephfs", clients(cluster, {"name": cluster.client_name}), cluster.patience) as ends:
        sides = {side: Failing(line.channel, line.patience, cluster) for side, line in ends.items()}
        seed = stage.rng.randrange(1 << 31)
        walk(stage, walking_on(sides, "cephfs", lambda rng: MovedModel(walk_names(rng)), seed), FULL_STEPS)
    wait_active(cluster)
    stage.recorder.witness("metadata servers that took over", got=incarnation(cluster) - before, least=LEAST_MOVED)
    cluster.wait_healthy()
    scrubbed(stage)


SCENARIOS = (
    Scenario(
        name="cephfs.walk-moved-long",
        goal="No client loses anything when metadata servers crash, and what was synced outlives the eviction of one.",
        method=f"Takes {FULL_STEPS} random steps as `walk`, of which some kill or fail the active metadata server, and "
        "some evict a client; compares every answer, and every "
        f"{LOOK_EVERY} steps the whole tree, with a model; shortens a walk that goes wrong; scrubs.",
        run=walked,
        check="witnessed",
        tier=Tier.FULL,
        sees=(
            "operations of .* through .*",
            "wrong answers on a walk over .*|walk over .*",
            "metadata servers that took over",
        ),
        topology=PAIR,
        expects=EXPECTS,
    ),
)
