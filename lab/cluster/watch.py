"""Watches a cluster during a scenario: ends waits and commands if a daemon does not run as it should; samples status.

A daemon counts as not running if it died, is stopped (SIGSTOP), or is down in the map although its process lives.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cephlab.lab.base.clock import SYSTEM, Clock, TimeLimit
from cephlab.lab.base.errors import CephTrouble, CommandTimedOut, LabError, NotReached
from cephlab.lab.base.workers import repeated
from cephlab.lab.ceph.daemon import Daemon, Wanted, stopped
from cephlab.lab.ceph.status import Status, parse_status
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import HostProcess

LOOK_S = 5.0
"""Time between two checks. Each check reads one file of /proc for each daemon."""
WAITED_S = 30.0
"""A wait must have lasted this long before the OSD map is checked too; shorter waits end by themselves."""
DOWN_S = 45.0
"""Multiplied by patience. A sound OSD that was marked down by mistake is up again within seconds
(osd_heartbeat_grace: 10)."""
GAP_S = 25.0
"""After this long without a look at the map, an OSD that was down before may have been up in between. Less than
WAITED_S: each wait looks at the map only after that time, so the looks of two waits are never taken for one."""
SAMPLE = "sample"
SAMPLED_S = 0.5


class Watch:
    """Checks a cluster's daemons while some thread waits; raises CephTrouble that names the daemon.

    Any thread may wait. What one thread finds is raised once in each of them, so that all their commands end.
    limit: for the whole watched block; held: whether SIGSTOP holds a daemon.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock = SYSTEM,
        held: Callable[[Daemon], bool] | None = None,
        limit: TimeLimit | None = None,
    ) -> None:
        self._cluster, self._clock, self._held, self._limit = cluster, clock, held or held_here, limit
        self._began_s = self._looked_s = clock.monotonic()
        self._looking = threading.Lock()
        self._stopped: set[str] = set()
        self._dead: set[str] = set()
        self._mapped_s = -math.inf
        self._down: dict[str, tuple[HostProcess | None, float]] = {}
        self._trouble: CephTrouble | None = None
        self._told: set[int] = set()

    def __call__(self, waited_s: float) -> None:
        """waited_s: how long the wait has lasted; the map is checked only in long waits."""
        self.tell()
        now = self._clock.monotonic()
        # A check may itself wait for an answer. It must not start another check.
        if now - self._looked_s < LOOK_S or not self._looking.acquire(blocking=False):
            return
        try:
            self._look(now, waited_s)
        except CephTrouble as trouble:
            self._trouble, self._told = trouble, {threading.get_ident()}
            raise
        finally:
            self._looking.release()

    def tell(self) -> None:
        """Raise, once per thread, what another thread found."""
        if self._trouble is not None and threading.get_ident() not in self._told:
            self._told.add(threading.get_ident())
            raise self._trouble

    def cause(self, error: LabError) -> LabError:
        """The cause of an error: for a wait or command that timed out, the stopped daemon, if there is one."""
        late = any(isinstance(link, CommandTimedOut | NotReached) for link in (error, error.__cause__))
        stopped = self._stopped_now() if late else set()
        return _stands_still(stopped, str(error)) if stopped else error

    def _look(self, now: float, waited_s: float) -> None:
        self._looked_s = now
        self._look_for_stopped()
        self._look_for_dead()
        if waited_s >= WAITED_S:
            self._look_for_down(now)
        self._look_at_limit(now - self._began_s)

    def _look_at_limit(self, taken_s: float) -> None:
        """Raise only once when the limit has passed, so that the clean-up afterwards can wait too."""
        limit = self._limit
        if limit is not None and taken_s > limit.seconds:
            self._limit = None
            what = f"{limit.of} has taken {taken_s:.0f} s, more than its limit of {limit.seconds:.0f} s ({limit.why})"
            raise CephTrouble(what, "", "check whether this machine is much busier than before")

    def _look_for_stopped(self) -> None:
        stopped = self._stopped_now()
        lasting = stopped & self._stopped
        self._stopped = stopped
        if lasting:
            raise _stands_still(lasting, "")

    def _look_for_dead(self) -> None:
        """Only for processes of this machine, because a process elsewhere costs a request at each check."""
        dead = {daemon.name for daemon in self._running() if _is_here(daemon) and not daemon.alive()}
        lasting = dead & self._dead
        self._dead = dead
        for name in sorted(lasting):
            self._cluster.daemon(name).check()

    def _stopped_now(self) -> set[str]:
        return {daemon.name for daemon in self._running() if self._held(daemon)}

    def _look_for_down(self, now: float) -> None:
        """Raise for an OSD whose process lives but which is down in the map for longer than a slow machine explains."""
        if any(daemon.kind == "mon" and not _runs(daemon) for daemon in self._cluster.daemons.values()):
            return  # the monitors may have no quorum
        try:
            up = set(self._cluster.up_osds())
        except LabError:
            return  # an OSD that was down in the last map may be up in the one that nobody tells
        before = self._down if now - self._mapped_s <= GAP_S else {}
        self._mapped_s, self._down = now, {}
        for daemon in self._running():
            if daemon.kind == "osd" and int(daemon.id) not in up:
                process, since = before.get(daemon.name, (daemon.process, now))
                self._down[daemon.name] = daemon.process, since if process == daemon.process else now
        limit_s = DOWN_S * self._cluster.patience
        for name, (_, since) in self._down.items():
            if now - since >= limit_s:
                self._cluster.daemon(name).check()
                raise CephTrouble(
                    f"{name} has been down in the map for {now - since:.0f} s although its process runs",
                    self._cluster.daemon(name).log_tail(),
                )

    def _running(self) -> Iterator[Daemon]:
        return (daemon for daemon in self._cluster.daemons.values() if daemon.wanted is Wanted.RUNNING)


def _stands_still(names: set[str], detail: str) -> CephTrouble:
    are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    what = f"{', '.join(sorted(names))} {are} stopped (SIGSTOP) although nobody paused {them}"
    return CephTrouble(what, detail, "see the daemon's log")


def held_here(daemon: Daemon) -> bool:
    """Whether SIGSTOP holds a daemon of this machine; one elsewhere would cost starting a program at each check."""
    return _is_here(daemon) and stopped(daemon)


def _is_here(daemon: Daemon) -> bool:
    return daemon.process is not None and daemon.process.pid != 0


def _runs(daemon: Daemon) -> bool:
    return daemon.wanted is Wanted.RUNNING and daemon.alive()


@contextmanager
def watched(cluster: Cluster, recorder: Recorder, period_s: float = SAMPLED_S) -> Iterator[None]:
    """Record a `sample` event every period_s seconds inside the block, through a separate client.

    A failed request is recorded too, with its reason: monitors without a quorum do not answer, and a client may end.
    """
    node = cluster.client.host.name
    client = cluster.new_client(node, options={"rados_mon_op_timeout": "5"})

    def sample() -> None:
        try:
            recorder.record(SAMPLE, **figures(parse_status(client.mon("status"))))
        except LabError as error:
            recorder.record(SAMPLE, unavailable=error.what)

    try:
        with repeated(sample, period_s, "watch"):
            yield
    finally:
        client.close()


def figures(status: Status) -> dict[str, object]:
    """The figures of a sample."""
    return {
        "health": status.health,
        "osds_up": status.osds_up,
        "osds_in": status.osds_in,
        "degraded": status.degraded_objects,
        "misplaced": status.misplaced_objects,
        "unfound": status.unfound_objects,
        "recovering_bytes_s": status.recovering_bytes_s,
        "clean": status.clean,
    }
