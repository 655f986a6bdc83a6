"""Faults of daemons that crash, are stopped, hang or flap: one daemon, or all at once."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from random import Random
from typing import ClassVar, Self

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.workers import each_at_once
from cephlab.lab.ceph.daemon import Wanted, start_monitors, stopped
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.fault import Fault, Layout, Sign, look_for, until_healed
from cephlab.lab.services import SERVICES, service_of

_LOOK_S = 0.5

_MAJORITY = 3
"""With at least this many monitors, one can be lost and the others still have a quorum."""


@dataclass(frozen=True)
class OneDaemon(Fault):
    """A fault of one daemon. The proof is that the cluster misses the daemon."""

    daemon: str

    @property
    def target(self) -> str:
        return self.daemon

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        spare = spare_daemons(layout)
        return cls(rng.choice(spare)) if spare else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset({layout.node_of(self.daemon)})

    def sign(self, cluster: Cluster) -> Sign:
        return missed(cluster, self.daemon)


class KillDaemon(OneDaemon):
    """SIGKILL, as when a daemon crashes."""

    name: ClassVar[str] = "kill-daemon"

    def broken(self, cluster: Cluster) -> AbstractContextManager[None]:
        return until_healed(lambda: cluster.kill(self.daemon), lambda: cluster.start(self.daemon))


class StopDaemon(OneDaemon):
    """SIGTERM, as when an administrator stops a service."""

    name: ClassVar[str] = "stop-daemon"

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[str]:
        with until_healed(lambda: cluster.stop_or_kill(self.daemon), lambda: cluster.start(self.daemon)) as ended:
            yield "" if ended else "it did not end after SIGTERM and was killed"


class PauseDaemon(OneDaemon):
    """SIGSTOP: it keeps its connections but does not answer, as when its machine swaps or its disk hangs."""

    name: ClassVar[str] = "pause-daemon"

    def broken(self, cluster: Cluster) -> AbstractContextManager[None]:
        return until_healed(lambda: cluster.pause(self.daemon), lambda: cluster.resume(self.daemon))


@dataclass(frozen=True)
class KillTogether(Fault):
    """SIGKILL to several daemons within a few milliseconds, before any of them can notify another."""

    name: ClassVar[str] = "kill-together"
    daemons: tuple[str, ...]

    @property
    def target(self) -> str:
        return ", ".join(self.daemons)

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        """Choose all daemons of a node, except a monitor that the quorum needs."""
        spared = set(spare_daemons(layout))
        groups = [tuple(name for name in names if name in spared) for _, names in sorted(layout.nodes.items())]
        groups = [group for group in groups if group]
        return cls(rng.choice(groups)) if groups else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset(layout.node_of(name) for name in self.daemons)

    def broken(self, cluster: Cluster) -> AbstractContextManager[None]:
        for name in self.daemons:  # all of them, before the first one is killed
            cluster.daemon(name).require_killable()
        return until_healed(lambda: kill_at_once(cluster, self.daemons), lambda: start_at_once(cluster, self.daemons))

    def sign(self, cluster: Cluster) -> Sign:
        daemons = [cluster.daemon(name) for name in self.daemons]
        return look_for(
            "daemons dead at the same time",
            lambda: sum(not daemon.alive() for daemon in daemons),
            least=len(daemons),
        )


@dataclass(frozen=True)
class KillEverything(KillTogether):
    """SIGKILL to every daemon of the cluster within a few milliseconds.

    The machines stay up and keep what was written to their files: all daemons crash at once, but no power is cut.
    """

    name: ClassVar[str] = "kill-everything"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self:
        return cls(tuple(sorted(name for names in layout.nodes.values() for name in names)))


@dataclass(frozen=True)
class FlappingOsd(OneDaemon):
    """An OSD that crashes and comes back, again and again, until the fault is healed."""

    name: ClassVar[str] = "flapping-osd"
    dead_s: float = 1.0
    alive_s: float = 3.0
    back_s: float = 10.0
    least_flaps: int = 2

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        osds = layout.daemons("osd")
        return cls(rng.choice(osds)) if osds else None

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        done = threading.Event()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="flapper") as pool:
            flapping = pool.submit(self._flap, cluster, done)
            try:
                yield
            finally:
                done.set()
                wait([flapping])
                cluster.start(self.daemon)
        flapping.result()

    def _flap(self, cluster: Cluster, done: threading.Event) -> None:
        while not done.is_set():
            before = osd_entry(cluster, self.daemon)["up_from"]
            cluster.kill(self.daemon)
            done.wait(self.dead_s)
            cluster.start(self.daemon)
            self._come_back(cluster, before, done)
            done.wait(self.alive_s * cluster.patience)

    def _come_back(self, cluster: Cluster, before: int, done: threading.Event) -> None:
        """Wait until it is up again in the OSD map. Otherwise the next kill would come too early on a busy machine."""
        deadline = Deadline.after(self.back_s * cluster.patience)
        while not (done.is_set() or deadline.passed() or osd_entry(cluster, self.daemon)["up_from"] > before):
            deadline.pause(_LOOK_S)

    def sign(self, cluster: Cluster) -> Sign:
        """How often it was marked down in the OSD map: each time sets a new `down_at`."""
        epochs: set[int] = set()

        def flaps() -> int:
            epochs.add(int(osd_entry(cluster, self.daemon)["down_at"]))
            return len(epochs) - 1

        return look_for("times marked down in the OSD map", flaps, least=self.least_flaps, patience=cluster.patience)


def spare_daemons(layout: Layout) -> list[str]:
    """Daemons that a cluster should be able to lose: all, except monitors that are needed for a majority."""
    mons = layout.daemons("mon")
    kinds = [kind for kind in SERVICES if kind != "mon"]
    return [*(name for kind in kinds for name in layout.daemons(kind)), *(mons if len(mons) >= _MAJORITY else [])]


def missed(cluster: Cluster, daemon: str) -> Sign:
    """Proof that the cluster misses a daemon: it is down in the OSD map, or out of the quorum.

    Without a majority of monitors, or for daemons that Ceph does not track, the proof is that its process does not run.
    """
    service, ident = service_of(daemon), daemon.partition(".")[2]
    if not decides(cluster) or service.lost(cluster.client, ident) is None:
        return idle(cluster, [daemon])
    return look_for(
        f"{service.kind} daemons that the cluster misses",
        lambda: int(bool(service.lost(cluster.client, ident))),
        patience=cluster.patience,
    )


def down(cluster: Cluster, osds: Sequence[str]) -> Sign:
    """Proof that these OSDs are down in the OSD map; without a quorum, that their processes do not run."""
    if not decides(cluster):
        return idle(cluster, osds)
    return look_for(
        "OSDs that are down in the OSD map",
        lambda: sum(not osd_entry(cluster, name)["up"] for name in osds),
        least=len(osds),
        patience=cluster.patience,
    )


def idle(cluster: Cluster, names: Sequence[str]) -> Sign:
    """Proof from the kernels of their hosts that none of these daemons runs."""
    return look_for(
        "processes that do not run",
        lambda: sum(not at_work(cluster, name) for name in names),
        least=len(names),
        patience=cluster.patience,
    )


def at_work(cluster: Cluster, name: str) -> bool:
    """Whether a daemon's process exists and is not stopped by SIGSTOP.

    Only a paused daemon is checked for SIGSTOP, because nothing else sends it.
    """
    daemon = cluster.daemon(name)
    return daemon.alive() and not (daemon.wanted is Wanted.PAUSED and stopped(daemon))


def decides(cluster: Cluster) -> bool:
    """Whether a majority of the monitors runs."""
    mons = [name for name in cluster.daemons if name.startswith("mon.")]
    return 2 * sum(at_work(cluster, name) for name in mons) > len(mons)


def osd_entry(cluster: Cluster, daemon: str) -> dict[str, int]:
    """The entry of an OSD in the OSD map: {osd, up, in, up_from, down_at, ...}."""
    number = int(daemon.partition(".")[2])
    entries = cluster.client.mon("osd dump")["osds"]
    osd: dict[str, int] = next(entry for entry in entries if entry["osd"] == number)
    return osd


def kill_at_once(cluster: Cluster, names: Sequence[str]) -> None:
    """Send SIGKILL to all of them, each without waiting for another to end."""
    daemons = [cluster.daemon(name) for name in names]
    for daemon in daemons:
        # Set before any ends, so that none counts as a crash.
        daemon.wanted = Wanted.STOPPED
    each_at_once([daemon.kill for daemon in daemons])
    cluster.daemons_changed()


def start_at_once(cluster: Cluster, names: Sequence[str]) -> None:
    """Start all of them together, as when power returns to a data center; see also `start_monitors`."""
    daemons = [cluster.daemon(name) for name in names]
    monitors = [daemon for daemon in daemons if daemon.kind == "mon"]
    start = methodcaller("start")
    starting = partial(start_monitors, monitors, start, cluster.client.host, patience=cluster.patience)
    each_at_once([starting, *(daemon.start for daemon in daemons if daemon not in monitors)])
    cluster.daemons_changed()
