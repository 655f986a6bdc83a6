"""What the scenarios stand on: an RBD image mapped by a client's kernel, a cache in front of it, a database on top.

sysbench -> MariaDB -> XFS -> "db": the cache, or the origin alone -> "slow": the origin's class -> krbd -> RBD
                               `-> "fast", "meta": disks of the client
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CleanupFailed, LabError
from cephlab.lab.blockstack import filesystem, krbd, mapper
from cephlab.lab.blockstack.dmcache import PAPER_BLOCK_SECTORS, CacheDevice, Mode, metadata_bytes
from cephlab.lab.blockstack.mapper import SECTOR_BYTES, Mapper
from cephlab.lab.blockstack.mariadb import DATABASE, MariaDb
from cephlab.lab.blockstack.writecache import WriteCache
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import GIB, MIB, Capability, Disk, DiskClass

NODE = "c0"
STORAGE = "n0"
POOL = "dmcache"
IMAGE = "database"
ONE_COPY = PoolKind("replicated", 1)
"""As in the paper: the cost of replication is the cluster's, and no part of what a cache in front of it does."""

IMAGE_BYTES = 384 * MIB
"""Of the RBD image; the least that XFS takes is 300 MiB. The paper has 8 GiB."""
CACHE_BYTES = 256 * MIB
"""Room for the whole database, as in the paper's first runs."""
FAST_DISK = Disk("cache", GIB, DiskClass.NVME)
METADATA_DISK = Disk("metadata", 2 * metadata_bytes(GIB, 64), DiskClass.NVME)

ORIGIN_MS = 10
"""The origin's class, imposed by dm-delay: about what a disk of 7200 revolutions takes for a random request, and one
tick of User-Mode Linux' clock. A delay, not a queue: requests in flight do not wait for each other."""

TOPOLOGY = Topology(
    native=1,
    foreign=0,
    lone_client=True,
    options=(("mon_allow_pool_size_one", "true"),),
    role_sets=("ceph", "database"),
    client_disks=(FAST_DISK, METADATA_DISK),
)
NEEDS = frozenset({Capability.OWN_KERNEL})
NEEDS_CUT = frozenset({Capability.OWN_KERNEL, Capability.POWER_CUT})

scenario_on_stand = partial(Scenario, check="figures", tier=Tier.FULL, topology=TOPOLOGY, needs=NEEDS)
"""Makes a scenario of this suite. What it says itself comes before these values."""

DB, SLOW, FAST, METADATA = "db", "slow", "fast", "meta"
WRITECACHE = "writecache"
NO_CACHE = "none"
_FOLDER = PurePosixPath("/mnt/cephlab-db")
_PG_NUM = 16
_WARM_S = 300.0


@dataclass
class Stand:
    """Layers on one client, over an image of a pool. image_device: krbd's, once mapped; cache: the one in use."""

    cluster: Cluster
    mapper: Mapper
    database: MariaDb
    cache_bytes: int
    pool: str = POOL
    cache: CacheDevice | WriteCache | None = None
    image_device: PurePosixPath = field(default=PurePosixPath())

    @property
    def host(self) -> Host:
        return self.mapper.host

    @property
    def origin(self) -> PurePosixPath:
        return Mapper.path(SLOW)

    @property
    def device(self) -> PurePosixPath:
        """Where the file system is."""
        return Mapper.path(DB)

    @property
    def kind(self) -> str:
        """What is between the file system and the image: a mode of dm-cache, WRITECACHE or NO_CACHE."""
        if self.cache is None:
            return NO_CACHE
        return WRITECACHE if isinstance(self.cache, WriteCache) else self.cache.mode.value

    @property
    def layers(self) -> Mapping[str, PurePosixPath]:
        """What one transaction's requests are counted at."""
        return {
            "file system": self.device,
            "cache": Mapper.path(FAST),
            "metadata": Mapper.path(METADATA),
            "rbd": self.image_device,
        }

    def attach(self) -> None:
        """Everything below the cache; again after each boot of the client."""
        self.mapper.load_modules()
        self.image_device = krbd.map_image(self.cluster, NODE, self.pool, IMAGE)
        self.mapper.create(SLOW, mapper.linear(self.image_device, self.mapper.sectors(self.image_device)))
        fast = self.host.disk(FAST_DISK.name)
        self.mapper.create(FAST, mapper.linear(fast, self.cache_bytes // SECTOR_BYTES))
        disk = self.host.disk(METADATA_DISK.name)
        self.mapper.create(METADATA, mapper.linear(disk, self.mapper.sectors(disk)))

    def impose(self, *, slow: bool = True) -> None:
        """Give the origin its class, or take it off again: filling and comparing need not wait for a slow disk."""
        sectors = self.mapper.sectors(self.image_device)
        table = mapper.linear(self.image_device, sectors)
        if slow:
            table = mapper.delayed(self.image_device, sectors, read_ms=ORIGIN_MS, write_ms=ORIGIN_MS)
        self.mapper.swap(SLOW, table)

    def plain(self) -> None:
        """The origin alone, whatever was there before; a cache is flushed first."""
        if self.cache is not None:
            self.cache.detach()
            self.cache = None
            return
        self._put(mapper.linear(self.origin, self.mapper.sectors(self.origin)))

    def cached(self, mode: Mode, block_sectors: int = PAPER_BLOCK_SECTORS, *, fresh: bool = True) -> CacheDevice:
        """A cache, made anew as in the paper; not fresh: with what its metadata knows."""
        fast, metadata = Mapper.path(FAST), Mapper.path(METADATA)
        made = CacheDevice(self.mapper, DB, self.origin, fast, metadata, mode, block_sectors)
        self._begin(made, fresh=fresh)
        return made

    def write_cached(self, *, fresh: bool = True) -> WriteCache:
        """As `cached`, by dm-writecache."""
        made = WriteCache(self.mapper, DB, self.origin, Mapper.path(FAST))
        self._begin(made, fresh=fresh)
        return made

    def resize(self, cache_bytes: int) -> None:
        """Give the next cache another size. There may be none now."""
        self.cache_bytes = cache_bytes
        disk = self.host.disk(FAST_DISK.name)
        self.mapper.swap(FAST, mapper.linear(disk, cache_bytes // SECTOR_BYTES))

    def put(self, kind: str, *, fresh: bool = True) -> CacheDevice | WriteCache:
        """A cache by the name of its kind: a mode of dm-cache, or WRITECACHE."""
        return self.write_cached(fresh=fresh) if kind == WRITECACHE else self.cached(Mode(kind), fresh=fresh)

    def _begin(self, made: CacheDevice | WriteCache, *, fresh: bool) -> None:
        if self.cache is not None:
            self.plain()
        if fresh:
            made.format()
        self._put(made.table())
        self.cache = made

    def _put(self, table: str) -> None:
        if DB in self.mapper.names():
            self.mapper.swap(DB, table)
        else:
            self.mapper.create(DB, table)

    def warm(self) -> None:
        """Read everything once, past the page cache, as the paper's sysbench did before it was measured."""
        argv = ["dd", f"if={self.device}", "of=/dev/null", "bs=4M", "iflag=direct", "status=none"]
        self.host.run(argv, timeout_s=_WARM_S)

    def open_database(self) -> None:
        """Mount what is there and start the server; DatabaseDown or CommandFailed where that does not go."""
        filesystem.mount(self.host, self.device, self.database.folder)
        self.database.start()

    def new_database(self) -> None:
        """A file system with an empty server that runs."""
        filesystem.make_xfs(self.host, self.device)
        filesystem.mount(self.host, self.device, self.database.folder)
        self.database.install()
        self.database.start()
        self.database.query(f"CREATE DATABASE {DATABASE}")

    def close_database(self) -> None:
        self.database.stop()
        filesystem.unmount(self.host, self.database.folder)

    def detach(self) -> None:
        """End the server and take every layer away, down to the image, as for a move to another client."""
        self.close_database()
        for removal in self._removals():
            removal()
        self._unmap()

    def tear_down(self) -> None:
        """Remove every layer that is there. It goes on after an error, and reports all errors at the end."""
        errors: list[str] = []
        steps = [self.database.kill, self._unmount, *self._removals(), self._unmap]
        for step in steps:
            try:
                step()
            except LabError as error:
                errors.append(str(error))
        if errors:
            raise CleanupFailed(errors)

    def _removals(self) -> list[Callable[[], None]]:
        return [partial(self._remove, name) for name in (DB, SLOW, FAST, METADATA)]

    def _remove(self, name: str) -> None:
        if name in self.mapper.names():
            self.mapper.remove(name)

    def _unmount(self) -> None:
        if str(self.database.folder) in self.host.read(PurePosixPath("/proc/mounts")).decode():
            filesystem.unmount(self.host, self.database.folder)

    def _unmap(self) -> None:
        if self.host.exists(self.image_device):
            krbd.unmap_image(self.cluster, NODE, self.image_device)


@contextmanager
def standing(stage: Stage, *, cache_bytes: int = CACHE_BYTES, image_bytes: int = IMAGE_BYTES) -> Iterator[Stand]:
    """A mapped image, nothing on it and without its class yet; all of it goes at the end of the block."""
    with (
        pools.pool(stage.cluster, POOL, ONE_COPY, pg_num=_PG_NUM),
        on_image(stage, POOL, cache_bytes=cache_bytes, image_bytes=image_bytes) as stand,
    ):
        yield stand


@contextmanager
def on_image(
    stage: Stage, pool: str, *, cache_bytes: int = CACHE_BYTES, image_bytes: int = IMAGE_BYTES
) -> Iterator[Stand]:
    """As `standing`, in a pool that there is."""
    cluster = stage.cluster
    host = cluster.hosts[NODE]
    database = MariaDb(host, _FOLDER, host.directory / "mariadb-empty")
    krbd.create_image(cluster, NODE, pool, IMAGE, image_bytes)
    stand = Stand(cluster, Mapper(host), database, cache_bytes, pool)
    try:
        stand.attach()
        yield stand
    finally:
        stand.tear_down()
