"""A client on the minority side of a split: a read returns the newest value, or no answer."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.client import RadosClient, RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Stage

OBJECTS = 2
ROUNDS = 2
TRIED = 64
"""Names to try. With three OSDs, each is the primary of every third object."""
ANSWER_S = 3
"""Time to wait for an answer, before patience. An answer takes a hundredth of a second."""
CONNECT_S = 60


@dataclass(frozen=True)
class LookBeyond:
    """One read across the cut. wrote: version acknowledged on the majority side; read: version read, or None."""

    name: str
    wrote: int
    read: int | None


def stale(looks: Iterable[LookBeyond]) -> list[str]:
    """Reads that returned an older version than was acknowledged before they started."""
    return [
        f"{look.name}: got {look.read}, {look.wrote} was acknowledged"
        for look in looks
        if look.read is not None and look.read < look.wrote
    ]


@dataclass
class Beyond:
    """A client on the minority side. names: objects whose primary is there."""

    stage: Stage
    pool: str
    names: Sequence[str]
    client: RadosClient

    def look(self) -> None:
        """Write on this side, then read on the other, several times. Observe that no old value is returned."""
        looks = [self._look(name, version) for version in range(1, ROUNDS + 1) for name in self.names]
        recorder = self.stage.recorder
        recorder.witness("reads beyond the cut after writes on this side", got=len(looks), least=ROUNDS * OBJECTS)
        recorder.observe("old values read beyond the cut", got=stale(looks), wanted=[], of=len(looks))

    def _look(self, name: str, version: int) -> LookBeyond:
        self.stage.cluster.client.write_full(self.pool, name, str(version).encode())
        try:
            read = int(self.client.read(self.pool, name))
        except RadosError as error:
            if error.errno != errno.ETIMEDOUT:
                raise
            read = None  # the OSD waits for peers that it cannot reach
        look = LookBeyond(name, version, read)
        self.stage.recorder.record("look", **asdict(look))
        return look


@contextmanager
def beyond(stage: Stage, pool: str, node: str, away: Sequence[str]) -> Iterator[Beyond]:
    """Start a client on a node of the other side, which reads every object there before the network is cut."""
    cluster = stage.cluster
    names = led_there(cluster, pool, away)
    for name in names:
        cluster.client.write_full(pool, name, b"0")
    # Only monitors of its own side: from the others it would learn what that side cannot know.
    mons = [address for mon, address in own(cluster).deployment.mon_addresses.items() if mon in away]
    options = {
        "rados_osd_op_timeout": str(round(ANSWER_S * cluster.patience)),
        "mon_host": ",".join(f"[v2:{address}:3300]" for address in mons),
    }
    with closing(cluster.new_client(node, options=options)) as client:
        client.call("about", connect_s=round(CONNECT_S * cluster.patience))
        for name in names:
            client.read(pool, name)
        yield Beyond(stage, pool, names, client)


def led_there(cluster: Cluster, pool: str, away: Sequence[str]) -> list[str]:
    """Names of objects whose primary is on one of these nodes."""
    osds = {osd for osd in cluster.osd_ids() if cluster.host_of(f"osd.{osd}").name in away}
    names = (f"beyond.{number}" for number in range(TRIED))
    led = [name for name in names if pools.locate(cluster, pool, name)["acting_primary"] in osds][:OBJECTS]
    if len(led) < OBJECTS:
        raise LabBroken(f"no OSD of {', '.join(away)} leads a PG of {pool}", f"{len(led)} of {TRIED} names are there")
    return led
