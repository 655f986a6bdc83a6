"""Watches a cluster beside a scenario: ends waits and commands once a daemon that should run does not; samples status.

A daemon does not run when it died or was stopped, or when it is down in the map although it lives.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from cephlab.lab.base.clock import SYSTEM, Clock, TimeLimit
from cephlab.lab.base.errors import CephTrouble, CommandTimedOut, LabError, NotReached
from cephlab.lab.ceph.daemon import Daemon, Wanted, stopped
from cephlab.lab.ceph.status import Status, parse_status
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder

LOOK_S = 5.0
"""Between two looks: one costs a file of /proc for each daemon."""
WAITED_S = 30.0
"""Of a wait before the map is asked, too: shorter ones end by themselves."""
DOWN_S = 45.0
"""Before patience. A sound OSD that was called down by mistake is up again within seconds (osd_heartbeat_grace: 10)."""
GAP_S = 30.0
"""Without a look, after which what was down before is not known to have been down since."""
SAMPLE = "sample"
SAMPLED_S = 0.5


class Watch:
    """Looks at a cluster's daemons while somebody waits; raises CephTrouble that names the daemon.

    Any thread may wait. Each is told once of what one of them came upon, so that all their commands end.
    limit: of all that is watched; held: whether SIGSTOP holds a daemon.
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
        self._down_since: dict[str, float] = {}
        self._trouble: CephTrouble | None = None
        self._told: set[int] = set()

    def __call__(self, waited_s: float) -> None:
        """waited_s: how long the wait has lasted; the map is asked in long ones only."""
        self.tell()
        now = self._clock.monotonic()
        # A look may wait for an answer itself, and is not looked at.
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
        """Raise what another thread came upon, once."""
        if self._trouble is not None and threading.get_ident() not in self._told:
            self._told.add(threading.get_ident())
            raise self._trouble

    def cause(self, error: LabError) -> LabError:
        """What an error comes from: a wait or command that did not end, from the daemon that stands still, if any."""
        late = any(isinstance(each, CommandTimedOut | NotReached) for each in (error, error.__cause__))
        stopped = self._stopped_now() if late else set()
        return _stands_still(stopped, str(error)) if stopped else error

    def _look(self, now: float, waited_s: float) -> None:
        if now - self._looked_s > GAP_S:
            self._down_since = {}
        self._looked_s = now
        self._look_for_stopped()
        self._look_for_dead()
        if waited_s >= WAITED_S:
            self._look_for_down(now)
        self._look_at_limit(now - self._began_s)

    def _look_at_limit(self, taken_s: float) -> None:
        """Raise once beyond the limit, so that what cleans up afterwards can."""
        limit = self._limit
        if limit is not None and taken_s > limit.seconds:
            self._limit = None
            what = f"{limit.of} has taken {taken_s:.0f} s; its limit is {limit.seconds:.0f} s: {limit.why}"
            raise CephTrouble(what, "", "is this machine much busier than it was?")

    def _look_for_stopped(self) -> None:
        stopped = self._stopped_now()
        lasting = stopped & self._stopped
        self._stopped = stopped
        if lasting:
            raise _stands_still(lasting, "")

    def _look_for_dead(self) -> None:
        """Of processes of this machine: asking for one elsewhere costs a request for each look."""
        dead = {daemon.name for daemon in self._running() if _is_here(daemon) and not daemon.alive()}
        lasting = dead & self._dead
        self._dead = dead
        for name in sorted(lasting):
            self._cluster.daemon(name).check()

    def _stopped_now(self) -> set[str]:
        return {daemon.name for daemon in self._running() if self._held(daemon)}

    def _look_for_down(self, now: float) -> None:
        """An OSD that lives and is down in the map for longer than a slow machine explains."""
        if any(daemon.kind == "mon" and not _runs(daemon) for daemon in self._cluster.daemons.values()):
            return  # nobody may answer
        with suppress(LabError):
            up = set(self._cluster.up_osds())
            down = [daemon for daemon in self._running() if daemon.kind == "osd" and int(daemon.id) not in up]
            self._down_since = {daemon.name: self._down_since.get(daemon.name, now) for daemon in down}
        limit_s = DOWN_S * self._cluster.patience
        for name, since in self._down_since.items():
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
    """Whether SIGSTOP holds a daemon that is a process of this machine: one elsewhere costs a program for each look."""
    return _is_here(daemon) and stopped(daemon)


def _is_here(daemon: Daemon) -> bool:
    return daemon.process is not None and daemon.process.pid != 0


def _runs(daemon: Daemon) -> bool:
    return daemon.wanted is Wanted.RUNNING and daemon.alive()


@contextmanager
def watched(cluster: Cluster, recorder: Recorder, period_s: float = SAMPLED_S) -> Iterator[None]:
    """Record a `sample` event every period_s seconds inside the block, by a separate client.

    A failed request is recorded too, with its reason: monitors without a quorum do not answer.
    """
    node = cluster.client.host.name
    stopping = threading.Event()
    client = cluster.new_client(node, options={"rados_mon_op_timeout": "5"})

    def sample() -> None:
        while not stopping.wait(period_s):
            try:
                recorder.record(SAMPLE, **figures(parse_status(client.mon("status"))))
            except CephTrouble as error:
                recorder.record(SAMPLE, unavailable=error.what)

    thread = threading.Thread(target=sample, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
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
