"""Clock offset between this machine and every node, found as NTP finds it: half way between asking and hearing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lab.host import Channel, Host
from lab.scenario import Scenario, Stage
from suites.baseline.figure import Bound, note

ALLOWED = "mon_clock_drift_allowed"
_ASKED = 25  # the quickest of these bounds the offset best; an emulated host answers in about a millisecond

_TELL = """
import sys, time
for _ in sys.stdin:
    print(repr(time.time()), flush=True)
"""


@dataclass(frozen=True)
class Reading:
    """One exchange, seconds since the epoch: sent and heard by this machine's clock, told by the host's."""

    sent: float
    told: float
    heard: float

    @property
    def offset_s(self) -> float:
        """Of the host's clock against this machine's; off by at most `doubt_s`."""
        return self.told - (self.sent + self.heard) / 2

    @property
    def doubt_s(self) -> float:
        return (self.heard - self.sent) / 2


def run(stage: Stage) -> None:
    """Offsets of every host, and the largest between two of them, against what Ceph's monitors tolerate."""
    cluster = stage.cluster
    allowed = float(cluster.client.tell(f"mon.{cluster.spec.mons[0].name}", "config get", var=ALLOWED)[ALLOWED])
    found = {}
    for host in cluster.hosts.values():
        found[host.name] = best = quickest(readings(host, cluster.patience))
        stage.recorder.record("clock", host=host.name, offset_s=best.offset_s, doubt_s=best.doubt_s)
        stage.recorder.witness(f"{host.name}: exchanges", got=_ASKED, least=_ASKED)
    bound = Bound(f"{ALLOWED} of this cluster", most=allowed)
    for name, (value, doubt) in pairs(found).items():
        note(stage.recorder, name, value, "s", bound, low=max(0.0, value - doubt), high=value + doubt)


def readings(host: Host, patience: float) -> list[Reading]:
    """Ask a host for its time, several times over one channel."""
    channel: Channel = host.channel(["python3", "-u", "-c", _TELL])
    try:
        exchange(channel, patience)  # the first one waits for the interpreter
        return [exchange(channel, patience) for _ in range(_ASKED)]
    finally:
        channel.close()


def exchange(channel: Channel, patience: float) -> Reading:
    """One question and its answer."""
    sent = time.time()
    told = float(channel.ask(b"?", timeout_s=30 * patience))
    return Reading(sent, told, time.time())


def quickest(found: list[Reading]) -> Reading:
    """The exchange that leaves least doubt."""
    return min(found, key=lambda reading: reading.doubt_s)


def pairs(found: dict[str, Reading]) -> dict[str, tuple[float, float]]:
    """`clock offset between A and B` -> (offset, doubt), seconds, for every pair."""
    names = list(found)
    return {
        f"clock offset between {left} and {right}": (
            abs(found[left].offset_s - found[right].offset_s),
            found[left].doubt_s + found[right].doubt_s,
        )
        for index, left in enumerate(names)
        for right in names[index + 1 :]
    }


SCENARIOS = (
    Scenario(
        name="baseline.clocks",
        goal="The clocks of any two nodes are as close as the monitors demand.",
        method=f"Asks each node for its time {_ASKED} times and takes the quickest answer's midpoint.",
        run=run,
        check="figures",
    ),
)
