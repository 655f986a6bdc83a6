"""The layers under every scenario: an RBD image mapped by a client's kernel, a cache in front of it, a database on top.

sysbench -> MariaDB -> XFS -> "db": the cache, or the origin alone -> "slow": the delayed origin -> krbd -> RBD
                               `-> "fast", "meta": disks of the client
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CleanUp
from cephlab.lab.blockstack import devices, mapper
from cephlab.lab.blockstack.dmcache import PAPER_BLOCK_SECTORS, CacheDevice, DmCacheMode, WriteCache, metadata_bytes
from cephlab.lab.blockstack.mapper import SECTOR_BYTES, Mapper
from cephlab.lab.blockstack.mariadb import DATABASE, MariaDb
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
"""As in the paper: replication is a cost of the cluster, not of a cache in front of it."""

IMAGE_BYTES = 384 * MIB
"""Size of the RBD image; XFS needs at least 300 MiB. The paper has 8 GiB."""
CACHE_BYTES = 256 * MIB
"""Room for the whole database, as in the paper's first runs."""
FAST_DISK = Disk("cache", GIB, DiskClass.NVME)
METADATA_DISK = Disk("metadata", 2 * metadata_bytes(GIB, 64), DiskClass.NVME)

ORIGIN_MS = 10
"""The delay that dm-delay adds to the origin: about one random request on a disk of 7200 revolutions a minute, and one
tick of User-Mode Linux' clock. It is no queue: requests in flight do not wait for each other."""

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
"""Makes a scenario of this suite; arguments of the call override these."""

DB, SLOW, FAST, METADATA = "db", "slow", "fast", "meta"
"""Mapped devices, from the top down."""
WRITECACHE = "writecache"
NO_CACHE = "none"
_FOLDER = PurePosixPath("/mnt/cephlab-db")
_PG_NUM = 16
_ORDER = 22
"""Objects of 4 MiB, as `rbd create` makes them."""
_WARM_S = 300.0


@dataclass
class Stand:
    """The layers on one client. image_device: krbd's, once the image is mapped; cache: the one in use, if any."""

    cluster: Cluster
    mapper: Mapper
    database: MariaDb
    pool: str = POOL
    cache_bytes: int = CACHE_BYTES
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
        """The device with the file system."""
        return Mapper.path(DB)

    @property
    def kind(self) -> str:
        """The kind of cache in use: a mode of dm-cache, WRITECACHE or NO_CACHE."""
        if self.cache is None:
            return NO_CACHE
        return WRITECACHE if isinstance(self.cache, WriteCache) else self.cache.mode.value

    @property
    def layers(self) -> Mapping[str, PurePosixPath]:
        """The devices at which a transaction's requests are counted."""
        return {
            "file system": self.device,
            "cache": Mapper.path(FAST),
            "metadata": Mapper.path(METADATA),
            "rbd": self.image_device,
        }

    def attach(self) -> None:
        """Make every layer below the cache; again after each boot of the client."""
        self.mapper.load_modules()
        self.image_device = devices.map_image(self.cluster, NODE, self.pool, IMAGE)
        self.mapper.create(SLOW, self.mapper.whole(self.image_device))
        self.mapper.create(FAST, self._fast_table())
        self.mapper.create(METADATA, self.mapper.whole(self.host.disk(METADATA_DISK.name)))

    def _fast_table(self) -> str:
        return mapper.linear(self.host.disk(FAST_DISK.name), self.cache_bytes // SECTOR_BYTES)

    def impose(self, *, slow: bool = True) -> None:
        """Make the origin slow, or fast again: filling and comparing need not wait for a slow disk."""
        self.mapper.with_delay(SLOW, self.image_device, ORIGIN_MS if slow else 0)

    def plain(self) -> None:
        """Use the origin alone; a cache is flushed and detached first."""
        if self.cache is not None:
            self.cache.detach()
            self.cache = None
        else:
            self._put(self.mapper.whole(self.origin))

    def cached(self, mode: DmCacheMode, block_sectors: int = PAPER_BLOCK_SECTORS, *, fresh: bool = True) -> CacheDevice:
        """Put a dm-cache in front of the origin. fresh: empty, as in the paper; else as its metadata says."""
        fast, metadata = Mapper.path(FAST), Mapper.path(METADATA)
        cache = CacheDevice(self.mapper, DB, self.origin, fast, metadata, mode, block_sectors)
        self._use(cache, fresh=fresh)
        return cache

    def put(self, kind: str, *, fresh: bool = True) -> CacheDevice | WriteCache:
        """Put a cache in front of the origin, by its kind: a mode of dm-cache, or WRITECACHE."""
        if kind != WRITECACHE:
            return self.cached(DmCacheMode(kind), fresh=fresh)
        cache = WriteCache(self.mapper, DB, self.origin, Mapper.path(FAST))
        self._use(cache, fresh=fresh)
        return cache

    def resize(self, cache_bytes: int) -> None:
        """Set the size of the next cache, while there is none."""
        self.cache_bytes = cache_bytes
        self.mapper.swap(FAST, self._fast_table())

    def _use(self, cache: CacheDevice | WriteCache, *, fresh: bool) -> None:
        if self.cache is not None:
            self.plain()
        if fresh:
            cache.format()
        self._put(cache.table())
        self.cache = cache

    def _put(self, table: str) -> None:
        if DB in self.mapper.names():
            self.mapper.swap(DB, table)
        else:
            self.mapper.create(DB, table)

    def warm(self) -> None:
        """Read the device once, past the page cache, as the paper's sysbench did before it was measured."""
        argv = ["dd", f"if={self.device}", "of=/dev/null", "bs=4M", "iflag=direct", "status=none"]
        self.host.run(argv, timeout_s=_WARM_S)

    def open_database(self) -> None:
        """Mount the file system and start the server; CommandFailed or DatabaseDown where either fails."""
        devices.mount(self.host, self.device, self.database.folder)
        self.database.start()

    def new_database(self) -> None:
        """Make a file system, and start an empty server on it."""
        devices.make_xfs(self.host, self.device)
        devices.mount(self.host, self.device, self.database.folder)
        self.database.install()
        self.database.start()
        self.database.query(f"CREATE DATABASE {DATABASE}")

    def close_database(self) -> None:
        self.database.stop()
        devices.unmount(self.host, self.database.folder)

    def check_table(self, timeout_s: float = 60.0) -> str:
        """The result of CHECK TABLE for sysbench's table; `OK` where nothing is wrong."""
        (checked,) = self.database.query(f"CHECK TABLE {DATABASE}.sbtest1", timeout_s)
        return checked[-1]

    def detach(self) -> None:
        """Stop the server and remove every layer, down to the image, as for a move to another client."""
        self.close_database()
        for name in (DB, SLOW, FAST, METADATA):
            self._remove(name)
        self._unmap()

    def tear_down(self) -> None:
        """Remove every layer that exists. It goes on after an error, and reports all errors at the end."""
        clean_up = CleanUp()
        steps: list[Callable[[], None]] = [self.database.kill, self._unmount]
        steps += [partial(self._remove, name) for name in (DB, SLOW, FAST, METADATA)]
        for step in (*steps, self._unmap):
            with clean_up.step():
                step()
        clean_up.end()

    def _remove(self, name: str) -> None:
        if name in self.mapper.names():
            self.mapper.remove(name)

    def _unmount(self) -> None:
        if str(self.database.folder) in self.host.read(PurePosixPath("/proc/mounts")).decode():
            devices.unmount(self.host, self.database.folder)

    def _unmap(self) -> None:
        if self.host.exists(self.image_device):
            devices.unmap_image(self.cluster, NODE, self.image_device)


@contextmanager
def standing(stage: Stage, *, image_bytes: int = IMAGE_BYTES) -> Iterator[Stand]:
    """Map an empty image, not slowed yet, while inside; everything is removed afterwards."""
    with pools.pool(stage.cluster, POOL, ONE_COPY, pg_num=_PG_NUM), on_image(stage, POOL, image_bytes) as stand:
        yield stand


@contextmanager
def on_image(stage: Stage, pool: str, image_bytes: int) -> Iterator[Stand]:
    """As `standing`, in an existing pool."""
    cluster = stage.cluster
    host = cluster.hosts[NODE]
    database = MariaDb(host, _FOLDER, host.directory / "mariadb-empty")
    cluster.client.rbd_create(pool, IMAGE, image_bytes, order=_ORDER, features=devices.LAYERING)
    stand = Stand(cluster, Mapper(host), database, pool)
    try:
        stand.attach()
        yield stand
    finally:
        stand.tear_down()
