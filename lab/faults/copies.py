"""Damages one copy of an object so that Ceph does not notice by itself: bit rot, a missing or an unreadable copy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import ClassVar, Self

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.faults.fault import Aftermath, Fault, Layout, Sign, look_for
from cephlab.lab.faults.scrub import blamed, deep_scrub, rados_json, repair
from cephlab.lab.providers.host import Host

CANARY_POOL = "canary"
CANARY = "canary"
CANARY_BYTES = 256 << 10
"""Large enough for blobs of 64 KiB, which BlueStore writes to their place at once and not as deferred writes."""


@dataclass(frozen=True)
class OneCopy(Fault):
    """A fault of one copy of an object in a replicated pool.

    pool, object: by default the fault makes its own pool and object. copy: 0 is the copy of the primary OSD, 1 of the
    first replica, and so on. seed: seed of the content of the fault's own object.
    """

    copy: int = 0
    pool: str = CANARY_POOL
    object: str = CANARY
    seed: int = 0

    @property
    def target(self) -> str:
        return f"copy {self.copy} of {self.pool}/{self.object}"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        copies = _copies(layout)
        return cls(copy=rng.randrange(copies), seed=rng.randrange(1 << 30)) if copies > 1 else None

    def nodes(self, layout: Layout) -> frozenset[str]:
        """No nodes: no OSD stops working, and the OSD with the copy is known only once the object exists."""
        return frozenset()

    @contextmanager
    def prey(self, cluster: Cluster) -> Iterator[bytes]:
        """Yields the object's content. The fault's own object is made before and removed after the block."""
        if self.pool != CANARY_POOL:
            yield cluster.client.read(self.pool, self.object)
            return
        hosts = {cluster.host_of(f"osd.{osd}").name for osd in cluster.osd_ids()}
        content = Random(self.seed).randbytes(CANARY_BYTES)
        with pools.pool(cluster, CANARY_POOL, PoolKind("canary", min(3, len(hosts))), pg_num=1):
            cluster.client.write_full(self.pool, self.object, content)
            yield content

    def aftermath(self, cluster: Cluster, before: bytes) -> Iterator[Aftermath]:
        """Whether the copies agree with each other and with what was written, from a scrub separate from the repair."""
        scrubbed = deep_scrub(cluster, self.pool)
        damaged = rados_json(cluster, "list-inconsistent-pg", self.pool)
        yield Aftermath(f"PGs of {self.pool} whose copies still differ after the repair", damaged, [], len(scrubbed))
        got, wanted = (sha256(data).hexdigest() for data in (cluster.client.read(self.pool, self.object), before))
        yield Aftermath(f"sha256 of {self.pool}/{self.object} after the repair", got, wanted)

    def place(self, cluster: Cluster) -> tuple[str, str]:
        """(PG, OSD daemon) of the copy."""
        mapping = pools.locate(cluster, self.pool, self.object)
        acting = mapping["acting"]
        if self.copy >= len(acting):
            raise SpecError(f"{self.object} has no copy {self.copy}", f"its PG is on OSDs {acting}")
        return str(mapping["pgid"]), f"osd.{acting[self.copy]}"

    def sign(self, cluster: Cluster) -> Sign:
        """Deep-scrub reports errors of this copy."""
        pgid, daemon = self.place(cluster)
        deep_scrub(cluster, self.pool)
        errors = blamed(cluster, pgid).get(self.object, {})
        return Sign(f"errors that deep-scrub reports of {daemon}", len(errors.get(daemon.partition(".")[2], ())))


class BitRot(OneCopy):
    """A bit flips on the disk below one copy. Only Ceph's own repair can heal it."""

    name: ClassVar[str] = "bit-rot"
    in_labs: ClassVar[bool] = True

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        _, name = self.place(cluster)
        daemon = cluster.daemon(name)
        content = cluster.client.read(self.pool, self.object)
        try:
            # A copy in the OSD's cache would hide what the disk holds.
            cluster.client.command(name, "flush_store_cache")
            flip_bit(daemon.host, daemon.disks[0], [content[:NEEDLE_BYTES]], patience=cluster.patience)
            yield
        finally:
            repair(cluster, self.pool)


class MissingObject(OneCopy):
    """One copy is gone from its OSD's store, and the OSD does not know. Ceph's own repair heals it."""

    name: ClassVar[str] = "missing-object"
    in_labs: ClassVar[bool] = True

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        pgid, name = self.place(cluster)
        try:
            cluster.stop(name)
            try:
                ObjectStore(cluster.daemon(name), cluster.patience).tool("--pgid", pgid, self.object, "remove")
            finally:
                cluster.start(name)
            pools.wait_clean(cluster)
            yield
        finally:
            repair(cluster, self.pool)


class ReadErrors(OneCopy):
    """Reading the primary's copy returns EIO, as from a bad sector, through BlueStore's own fault injection.

    Writing the copy again makes it readable, as on a disk with spare sectors.
    """

    name: ClassVar[str] = "read-errors"

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        # Clients read the primary's copy, so only an unreadable primary copy is noticed.
        return cls(seed=rng.randrange(1 << 30)) if _copies(layout) > 1 else None

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        _, name = self.place(cluster)
        client = cluster.client
        client.command(name, "config set", var=_INJECT, val=["true"])
        try:
            client.command(name, "injectdataerr", pool=self.pool, objname=self.object)
            yield
        finally:
            client.command(name, "config set", var=_INJECT, val=["false"])

    def sign(self, cluster: Cluster) -> Sign:
        """Read the object: the data come from another copy, and the OSD counts a repaired copy."""
        _, name = self.place(cluster)
        before = repaired(cluster, name)
        cluster.client.read(self.pool, self.object)
        return look_for(
            f"copies that {name} repaired after a read error",
            lambda: repaired(cluster, name) - before,
            patience=cluster.patience,
        )


_INJECT = "bluestore_debug_inject_read_err"
_HEARD_S = 30.0
"""OSDs report every 5 s (mgr_stats_period)."""


def repaired(cluster: Cluster, osd: str) -> int:
    """How many copies an OSD has repaired since it started, because it could not read them.

    Waits for the manager, because a manager that has just started does not have statistics of every OSD yet.
    """
    number = int(osd.partition(".")[2])

    def counts() -> list[int]:
        stats = cluster.client.mgr("pg dump", dumpcontents=["osds"])["osd_stats"]
        return [int(entry["num_shards_repaired"]) for entry in stats if entry["osd"] == number]

    what = f"the manager's statistics of {osd}"
    return clock.wait(counts, bool, what=what, timeout_s=_HEARD_S * cluster.patience)[0]


def _copies(layout: Layout) -> int:
    """Copies of the fault's own object: one on each node with an OSD, three at most."""
    return min(3, len({layout.node_of(name) for name in layout.daemons("osd")}))


NEEDLE_BYTES = 64
BLOCK_BYTES = 4096
"""BlueStore's smallest allocation. Contents are searched at multiples of it."""

_SCAN_S = 120.0


def flip_bit(host: Host, disk: str, contents: Sequence[bytes], *, patience: float = 1.0) -> tuple[int, ...]:
    """Flip the lowest bit of the first byte of every block on a disk that begins like one of the contents.

    contents: at least NEEDLE_BYTES each, as written at the beginning of a block. The disk may be in use. Freed blocks
    are changed too if they still have the content, perhaps from an earlier run with the same seed. Returns the offsets
    on the disk; LabBroken if no block matches. Only a repair by Ceph undoes it.
    """
    short = [content for content in contents if len(content) < NEEDLE_BYTES]
    if short:
        raise LabBroken(f"{len(short[0])} bytes are too few to search a disk for", f"wanted: at least {NEEDLE_BYTES}")
    needles = b"".join(content[:NEEDLE_BYTES] for content in contents)
    argv = ["python3", "-c", _FLIP, str(host.disk(disk)), str(NEEDLE_BYTES), str(BLOCK_BYTES)]
    answer = host.run(argv, stdin=needles, timeout_s=_SCAN_S * patience).stdout.split()
    if not answer:
        raise LabBroken(f"no block on disk {disk} of {host.name} begins with the given content")
    return tuple(int(offset) for offset in answer)


_FLIP = """
import errno, os, sys

path, length, block = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
wanted = sys.stdin.buffer.read()
needles = [wanted[at : at + length] for at in range(0, len(wanted), length)]
CHUNK = 8 << 20
EMPTY = bytes(CHUNK)


def extents(disk, end):
    at = 0
    while at < end:
        try:
            at = os.lseek(disk, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a device does not tell where its holes are
                yield at, end
            return
        hole = os.lseek(disk, at, os.SEEK_HOLE)
        yield at // block * block, hole
        at = hole


def places(disk):
    for start, stop in extents(disk, os.lseek(disk, 0, os.SEEK_END)):
        for at in range(start, stop, CHUNK):
            piece = os.pread(disk, min(CHUNK, stop - at), at)
            # A guest has less memory than its disks are large.
            os.posix_fadvise(disk, at, len(piece), os.POSIX_FADV_DONTNEED)
            if piece == EMPTY[: len(piece)]:
                continue
            for needle in needles:
                offset = piece.find(needle)
                while offset >= 0:
                    if offset % block == 0:
                        yield at + offset
                    offset = piece.find(needle, offset + 1)


disk = os.open(path, os.O_RDWR)
for place in sorted(set(places(disk))):
    byte = os.pread(disk, 1, place)[0]
    os.pwrite(disk, bytes([byte ^ 1]), place)
    print(place)
os.fsync(disk)
"""
