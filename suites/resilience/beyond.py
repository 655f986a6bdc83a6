"""A client on the wrong side of a split: what it is told must be the newest, or nothing at all."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from lab import pools
from lab.ceph.client import RadosClient, RadosError
from lab.cluster import Cluster
from lab.errors import LabBroken
from lab.scenario import Stage

OBJECTS = 2
ROUNDS = 2
TRIED = 64
"""Names that are tried; of three OSDs each is the primary of every third object."""
ANSWER_S = 3
"""How long an answer is waited for, before patience: one that comes takes a hundredth of a second."""
CONNECT_S = 60


@dataclass(frozen=True)
class Look:
    """wrote: version that had been acknowledged on the deciding side; read: what came back beyond, None for nothing."""

    name: str
    wrote: int
    read: int | None


def stale(looks: Iterable[Look]) -> list[str]:
    """Reads that were answered with less than had been acknowledged before they began."""
    return [
        f"{one.name}: got {one.read}, {one.wrote} was acknowledged"
        for one in looks
        if one.read is not None and one.read < one.wrote
    ]


@dataclass
class Beyond:
    """A client that asks on the other side. names: objects whose primary is there."""

    stage: Stage
    pool: str
    names: Sequence[str]
    client: RadosClient

    def look(self) -> None:
        """Write anew on this side, then read beyond, again and again; observe that nothing old was told."""
        looks = [self._look(name, version) for version in range(1, ROUNDS + 1) for name in self.names]
        recorder = self.stage.recorder
        recorder.witness("reads beyond the cut after writes on this side", got=len(looks), least=ROUNDS * OBJECTS)
        recorder.observe("old values that were told beyond the cut", got=stale(looks), wanted=[])

    def _look(self, name: str, version: int) -> Look:
        self.stage.cluster.client.write_full(self.pool, name, str(version).encode())
        try:
            read = int(self.client.read(self.pool, name))
        except RadosError as error:
            if error.errno != errno.ETIMEDOUT:
                raise
            read = None  # the OSD waits for those that it does not hear of
        found = Look(name, version, read)
        self.stage.recorder.record("look", **asdict(found))
        return found


@contextmanager
def beyond(stage: Stage, pool: str, node: str, away: Sequence[str]) -> Iterator[Beyond]:
    """A client on a node of the other side, which has read of every object there before anything is cut."""
    cluster = stage.cluster
    names = led_there(cluster, pool, away)
    for name in names:
        cluster.client.write_full(pool, name, b"0")
    patient = str(round(ANSWER_S * cluster.patience))
    # Monitors of its own side alone: from the others it would hear what those beyond a cut cannot know.
    mons = [address for mon, address in cluster.deployment.mon_addresses.items() if mon in away]
    options = {"rados_osd_op_timeout": patient, "mon_host": ",".join(f"[v2:{address}:3300]" for address in mons)}
    client = cluster.new_client(node, options=options)
    try:
        client.call("about", connect_s=round(CONNECT_S * cluster.patience))
        for name in names:
            client.read(pool, name)
        yield Beyond(stage, pool, names, client)
    finally:
        client.close()


def led_there(cluster: Cluster, pool: str, away: Sequence[str]) -> list[str]:
    """Names of objects whose primary is on one of these nodes."""
    osds = {osd for osd in cluster.osd_ids() if cluster.host_of(f"osd.{osd}").name in away}
    names = (f"beyond.{number}" for number in range(TRIED))
    found = [name for name in names if pools.locate(cluster, pool, name)["acting_primary"] in osds][:OBJECTS]
    if len(found) < OBJECTS:
        raise LabBroken(f"no OSD of {', '.join(away)} leads a PG of {pool}", f"of {TRIED} names {len(found)} are there")
    return found
