"""Clock offsets: of every node from this machine, and of each daemon from its node.

As in NTP, the time of a node is taken at the midpoint of an exchange. A daemon's time is the one that it wrote on the
last line of its log, and its node's time is the modification time that the kernel gave the file then.
"""

import re
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import ANY_ARCH

ALLOWED = "mon_clock_drift_allowed"
_ASKED = 25  # exchanges; the quickest bounds the offset best; an emulated host answers in about a millisecond

LATE_S, AHEAD_S = 2.0, 0.05
"""A log line reaches the file after its time stamp, within some hundredths of a second on a busy machine, never before.

The kernel's times of files lag by a tick of its clock, 10 ms at most. LATE_S is before patience, which applies to an
emulated daemon.
"""
_LINES = 500
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:]+\.\d+[+-]\d{4}(?= )", re.MULTILINE)
_LOG_END = 'stat -c %.Y "$0"; tail -n "$1" "$0"; stat -c %.Y "$0"'

_TELL = """
import sys, time
for _ in sys.stdin:
    print(repr(time.time()), flush=True)
"""


@dataclass(frozen=True)
class ClockReading:
    """One exchange, in seconds since the epoch. sent, heard: by this machine's clock; remote_s: by the host's clock."""

    sent: float
    remote_s: float
    heard: float

    @property
    def offset_s(self) -> float:
        """Offset of the host's clock from this machine's, to within `doubt_s`."""
        return self.remote_s - (self.sent + self.heard) / 2

    @property
    def doubt_s(self) -> float:
        return (self.heard - self.sent) / 2


def run(stage: Stage) -> None:
    """Measure every host's offset, and compare that of each pair with what Ceph's monitors tolerate."""
    cluster = stage.cluster
    allowed = float(cluster.client.tell(f"mon.{cluster.spec.mons[0].name}", "config get", var=ALLOWED)[ALLOWED])
    best_of = {}
    for host in cluster.hosts.values():
        exchanges = readings(host, cluster.patience)
        best_of[host.name] = best = quickest(exchanges)
        stage.recorder.record("clock", host=host.name, offset_s=best.offset_s, doubt_s=best.doubt_s)
        stage.recorder.witness(f"{host.name}: exchanges", got=len(exchanges), least=_ASKED)
    bound = Bound(f"{ALLOWED} of this cluster", most=allowed, basis=Basis.CORRECTNESS)
    for name, (value, doubt) in pairs(best_of).items():
        stage.recorder.figure(name, value, "s", bound, interval=(max(0.0, value - doubt), value + doubt))
    if isinstance(cluster, AttachedCluster):
        stage.recorder.record("left_out", what="clocks of daemons", why="logs of an existing cluster are not read")
    else:
        compare_daemons(stage)


def compare_daemons(stage: Stage) -> None:
    """Compare the clock of every daemon with that of its machine."""
    cluster = stage.cluster
    for name, daemon in cluster.daemons.items():
        late = LATE_S * (cluster.patience if daemon.host.emulated else 1.0)
        why = f"a log line reaches its file at most {late:g} s after its time stamp, and never before"
        bound = Bound(why, least=-late, most=AHEAD_S, basis=Basis.CORRECTNESS)
        stage.recorder.figure(f"clock of {name} against its machine's", ahead_s(daemon), "s", bound)
    stage.recorder.witness("daemons compared with their machines", got=len(cluster.daemons), least=1)


def ahead_s(daemon: Daemon) -> float:
    """Seconds by which a daemon's clock is ahead of its machine's. The time that a line takes to the file lowers it."""
    argv = ["sh", "-c", _LOG_END, str(daemon.log), str(_LINES)]
    return ahead_of(daemon.host.run(argv).stdout, daemon.name)


def ahead_of(text: str, name: str) -> float:
    """Seconds ahead, from text: the file's modification time, the end of the log, the modification time again.

    The file may have been written to in between. LabBroken if no line has a time.
    """
    stamps = _STAMP.findall(text)
    if not stamps:
        raise LabBroken(f"the log of {name} has no line with a time stamp", text[-500:])
    lines = text.splitlines()
    before, after = float(lines[0]), float(lines[-1])
    stamp = datetime.strptime(stamps[-1], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    return max(0.0, stamp - after) + min(0.0, stamp - before)


def readings(host: Host, patience: float) -> list[ClockReading]:
    """Ask a host for its time, several times over one channel."""
    channel: Channel = host.channel(["python3", "-u", "-c", _TELL])
    try:
        exchange(channel, patience)  # the first one waits for the interpreter
        return [exchange(channel, patience) for _ in range(_ASKED)]
    finally:
        channel.close()


def exchange(channel: Channel, patience: float) -> ClockReading:
    sent = time.time()
    remote_s = float(channel.ask(b"?", timeout_s=30 * patience))
    return ClockReading(sent, remote_s, time.time())


def quickest(exchanges: list[ClockReading]) -> ClockReading:
    return min(exchanges, key=lambda reading: reading.doubt_s)


def pairs(clocks: dict[str, ClockReading]) -> dict[str, tuple[float, float]]:
    """`clock offset between A and B` -> (offset, doubt), seconds, for every pair."""
    return {
        f"clock offset between {left} and {right}": (abs(mine.offset_s - other.offset_s), mine.doubt_s + other.doubt_s)
        for (left, mine), (right, other) in combinations(clocks.items(), 2)
    }


SCENARIOS = (
    Scenario(
        name="baseline.clocks",
        goal="The clocks of any two nodes agree to within what monitors allow, and daemons have their node's time.",
        method=f"Asks each node for its time {_ASKED} times and uses the midpoint of the quickest answer; compares the "
        "time on the last line of each daemon's log with the file's modification time.",
        run=run,
        topology=ANY_ARCH,
        check="figures",
        sees=(".*: exchanges",),
    ),
)
