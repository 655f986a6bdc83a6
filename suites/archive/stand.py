"""Shared by the scenarios: six machines with EC 4+2, gateways on further machines, pools, and how full they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL, INDEX_POOL, Gateway
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.faults.full import Level, set_threshold
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.rgw import RGW
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import MIB, ClusterSpec, Disk, DiskClass, DiskLimits, Node, Osd
from cephlab.lab.telemetry.counters import of_osds
from cephlab.suites.object.stand import gateways

EC_4_2 = PoolKind("ec42", 6, k=4, m=2)
"""The erasure code of the ten-billion-object paper: as many shards as it has machines."""
MACHINES = 6
INDEX = PoolKind("index", 3)
PGS = 8
SMALL_BYTES = 65_536
"""The paper's small objects."""
UNIT_BYTES = 65_536
"""bluestore_min_alloc_size_hdd of the paper's release (tuning/references/rhcs-10b.toml)."""
NEARFULL, BACKFILLFULL = 0.93, 0.94
"""Above our 85 % and what is put after that. Ceph's defaults are 0.85 and 0.90, and 0.95 for full."""

NO_LIMITS = DiskLimits()
CHUNK_BYTES = 4096  # osd_pool_erasure_code_stripe_unit


@dataclass(frozen=True)
class ArchiveTopology(Topology):
    """Six machines with an OSD each, the last ones of the other architecture; gateways on machines of their own.

    foreign: how many of the six are of the other architecture. They have no monitor, and faults strike machines without
    one: of two that fail, one at least is foreign. A scenario that strikes nothing and only measures has 0: levels of
    RocksDB and the cost of an operation full over empty depend on no architecture, and emulated OSDs would make the
    filling several times as long and its intervals wider.

    db_bytes: of each OSD's separate RocksDB, 0 for none; disk_limits: of the disks, not of the RocksDB's;
    foreign_gateway: whether there is one of the other architecture, on the second gateway's machine.
    """

    foreign: int = 2
    db_bytes: int = 0
    disk_limits: DiskLimits = NO_LIMITS
    foreign_gateway: bool = True
    lone_client: bool = True

    unused: ClassVar[frozenset[str]] = frozenset({"native", "osds_per_node", "separate_db", "clients"})

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        stores = [self._store(number, in_memory=in_memory) for number in range(MACHINES)]
        doors = [Node("g0", host_arch(), services=(RGW.kind,))]
        if self.foreign_gateway:
            doors.append(Node("g1", host_arch().other, services=(RGW.kind,)))
        clients = [Node(f"c{index}", arch) for index, arch in enumerate(self.bare)]
        return ClusterSpec((*stores, *doors, *clients), release=release, image=image, options=dict(self.options))

    def _store(self, number: int, *, in_memory: bool) -> Node:
        name = f"n{number}"
        disks = [Disk(f"{name}-block", self.disk_bytes, DiskClass.HDD, self.disk_limits, in_memory)]
        if self.db_bytes:
            disks.append(Disk(f"{name}-db", self.db_bytes, DiskClass.NVME, in_memory=in_memory))
        osd = Osd(disks[0].name, db=disks[1].name if self.db_bytes else None)
        arch = host_arch() if number < MACHINES - self.foreign else host_arch().other
        return Node(name, arch, tuple(disks), (osd,), mon=number < self.mons, mgr=number == 0)

    def _completed(self, node: Node, services: Any) -> Node:
        return node


def options_of(unit_bytes: int, *annex: str) -> tuple[tuple[str, str], ...]:
    """Options of OSDs: an allocation unit for any kind of disk, and short RocksDB logs. annex: options of RocksDB."""
    return (
        ("bluestore_min_alloc_size", str(unit_bytes)),
        ("bluestore_rocksdb_options_annex", ",".join(("max_total_wal_size=33554432", *annex))),
    )


FILLED = ArchiveTopology(mons=3, disk_bytes=512 * MIB, db_bytes=128 * MIB, options=options_of(UNIT_BYTES))
"""As in the paper, with RocksDB on a faster disk; small, so that it fills soon. A quorum outlives two machines."""
LEVELS = ("max_bytes_for_level_base=16777216", "max_bytes_for_level_multiplier=8")
"""Two levels of RocksDB, of 16 and 128 MiB, that fit on a device of 256 MiB."""
ALIKE = replace(FILLED, foreign=0, db_bytes=256 * MIB, options=options_of(UNIT_BYTES, *LEVELS))
"""With machines of this architecture, and metadata that stays off the slow disks: by default the first level has 1 GiB.

A level that does not fit goes to the slow disks whole, which was seen after five of twelve cycles."""


def opened(cluster: Cluster) -> list[Gateway]:
    """The gateways, native first, on pools with EC 4+2, which are created before the first bucket."""
    if DATA_POOL not in cluster.client.mon("osd pool ls"):
        pools.create(cluster, INDEX_POOL, INDEX, pg_num=PGS)
        pools.create(cluster, DATA_POOL, EC_4_2, pg_num=PGS)
    by_arch = gateways(cluster)
    return [by_arch[arch] for arch in (host_arch(), host_arch().other) if arch in by_arch]


def allow_fuller(cluster: Cluster) -> None:
    """Raise the ratios at which Ceph warns, and at which it stops backfills."""
    set_threshold(cluster, Level.BACKFILLFULL, BACKFILLFULL)
    set_threshold(cluster, Level.NEARFULL, NEARFULL)


def data_bytes(cluster: Cluster) -> int:
    """Bytes that the objects' pool takes on all disks, without metadata, once every OSD has reported."""
    cluster.settle()
    pool = next(pool for pool in cluster.client.mon("df", detail="detail")["pools"] if pool["name"] == DATA_POOL)
    return int(pool["stats"]["data_bytes_used"])


def osds_of(cluster: Cluster) -> list[Daemon]:
    return [cluster.daemon(f"osd.{osd}") for osd in cluster.osd_ids()]


def bluefs(cluster: Cluster, counter: str) -> list[int]:
    """A BlueFS counter of each OSD; LabBroken where an OSD does not have it."""
    dumps = of_osds(cluster)
    if lacking := [osd for osd, dump in dumps.items() if f"bluefs.{counter}" not in dump]:
        raise LabBroken(f"no counter bluefs.{counter}", f"OSDs: {lacking}")
    return [int(dump[f"bluefs.{counter}"]) for dump in dumps.values()]


def shard_bytes(size_bytes: int, k: int) -> int:
    """Bytes of each shard of an object: whole stripes of k chunks (Ceph's ECUtil::stripe_info_t)."""
    return -(-size_bytes // (k * CHUNK_BYTES)) * CHUNK_BYTES


def taken_bytes(sizes: Sequence[int], unit_bytes: int, kind: PoolKind) -> int:
    """Bytes that objects take on all disks: each of k+m shards in whole allocation units.

    An object is at most one RADOS object of the gateway, 4 MiB.
    """
    return sum(kind.size * -(-shard_bytes(size, kind.k) // unit_bytes) * unit_bytes for size in sizes)
