"""dm-cache and dm-writecache, fast devices in front of slow ones: their tables and status, flushing and detaching.

dm-writecache caches only writes, up to a watermark; reads of anything else go to the origin. Sources: cache.rst and
writecache.rst in the kernel's Documentation/admin-guide/device-mapper/.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import output_of
from cephlab.lab.blockstack.mapper import SECTOR_BYTES, Mapper
from cephlab.lab.providers.host import Host

PAPER_BLOCK_SECTORS = 512
"""256 KiB, as in the 2015 paper's table. Its text says 512 bytes, but the kernel takes only multiples of 32 KiB."""
WRITECACHE_BLOCK_BYTES = 4096
"""The largest block size of dm-writecache."""
_FLUSH_S = 120.0
_CLEANER = "cleaner"


class DmCacheMode(StrEnum):
    """Where a write goes before it is acknowledged: only to the cache, to both, or only to the origin."""

    WRITEBACK = "writeback"
    WRITETHROUGH = "writethrough"
    PASSTHROUGH = "passthrough"


@dataclass(frozen=True)
class CacheStatus:
    """One line of `dmsetup status`. used, total: cache blocks; metadata_used, metadata_total: metadata blocks."""

    metadata_used: int
    metadata_total: int
    block_sectors: int
    used: int
    total: int
    read_hits: int
    read_misses: int
    write_hits: int
    write_misses: int
    demotions: int
    promotions: int
    dirty: int
    mode: str
    policy: str
    metadata_mode: str
    needs_check: bool

    @property
    def hits(self) -> int:
        return self.read_hits + self.write_hits

    @property
    def misses(self) -> int:
        return self.read_misses + self.write_misses

    def since(self, before: "CacheStatus") -> "CacheStatus":
        """This status with the hits and misses since another one only."""
        counted = ("read_hits", "read_misses", "write_hits", "write_misses")
        return replace(self, **{name: getattr(self, name) - getattr(before, name) for name in counted})

    @property
    def hit_ratio(self) -> float:
        """Hits as a share of all accesses so far; 0 before the first."""
        accesses = self.hits + self.misses
        return self.hits / accesses if accesses else 0.0


@output_of("`dmsetup status` of a cache")
def parse_status(text: str) -> CacheStatus:
    """Parse what follows `START LENGTH cache`; LabBroken for a failed cache or another target's line."""
    words = text.split()
    (metadata_used, metadata_total), (used, total) = (map(int, words[i].split("/")) for i in (1, 3))
    read_hits, read_misses, write_hits, write_misses, demotions, promotions, dirty = map(int, words[4:11])
    features, rest = _counted(words[11:])
    _core, (policy, *rest) = _counted(rest)
    _tunables, (metadata_mode, needs_check, *_) = _counted(rest)
    return CacheStatus(
        metadata_used=metadata_used,
        metadata_total=metadata_total,
        block_sectors=int(words[2]),
        used=used,
        total=total,
        read_hits=read_hits,
        read_misses=read_misses,
        write_hits=write_hits,
        write_misses=write_misses,
        demotions=demotions,
        promotions=promotions,
        dirty=dirty,
        mode=next(word for word in features if word in list(DmCacheMode)),
        policy=policy,
        metadata_mode=metadata_mode,
        needs_check=needs_check == "needs_check",
    )


def _counted(words: list[str]) -> tuple[list[str], list[str]]:
    """Split a list that starts with its length from the words after it."""
    count = int(words[0])
    return words[1 : 1 + count], words[1 + count :]


@dataclass(frozen=True)
class CacheDevice:
    """A named cache over existing devices. block_sectors: a multiple of 64."""

    mapper: Mapper
    name: str
    origin: PurePosixPath
    fast: PurePosixPath
    metadata: PurePosixPath
    mode: DmCacheMode = DmCacheMode.WRITEBACK
    block_sectors: int = PAPER_BLOCK_SECTORS

    def table(self, policy: str = "smq") -> str:
        sectors = self.mapper.sectors(self.origin)
        devices = f"{self.metadata} {self.fast} {self.origin}"
        return f"0 {sectors} cache {devices} {self.block_sectors} 1 {self.mode} {policy} 0"

    def format(self) -> None:
        """Forget what is cached: the kernel makes new metadata if the first block is zero."""
        self.mapper.clear_first_block(self.metadata)

    def status(self) -> CacheStatus:
        return parse_status(self.mapper.status(self.name))

    def keep_dirty(self) -> None:
        """Write nothing back until the next table is loaded. Otherwise smq cleans a cache that is idle for a second.

        With a threshold of 0 the cache never counts as idle (`spare_migration_bandwidth` of dm-cache-target.c). smq
        then cleans only when three quarters of the cache are dirty.
        """
        self.mapper.message(self.name, "migration_threshold 0")

    def flush(self, timeout_s: float = _FLUSH_S) -> CacheStatus:
        """Write every dirty block to the origin with the policy `cleaner`, and return the status afterwards.

        Programs may continue meanwhile. NotReached if it takes longer than timeout_s.
        """
        self.mapper.swap(self.name, self.table(_CLEANER))
        return clock.wait(
            self.status,
            lambda status: status.dirty == 0,
            what=f"no dirty block in {self.name}",
            timeout_s=timeout_s,
            interval_s=0.2,
            timed_out=clock.not_reached_with(lambda status: f"{status.dirty} dirty blocks"),
        )

    def detach(self, timeout_s: float = _FLUSH_S) -> CacheStatus:
        """Flush, then map the cache's name to only the origin; returns the status after the flush."""
        status = self.flush(timeout_s)
        self.drop()
        return status

    def drop(self) -> None:
        """Map the cache's name to only the origin; dirty blocks are lost."""
        self.mapper.swap(self.name, self.mapper.whole(self.origin))


def check_metadata(host: Host, metadata: PurePosixPath) -> str:
    """The complaints of cache_check about the metadata of an unused cache; empty if there are none."""
    result = host.run(["cache_check", str(metadata)], check=False)
    return "" if result.code == 0 else (result.stderr + result.stdout).strip() or f"status {result.code}"


def metadata_bytes(cache_bytes: int, block_sectors: int) -> int:
    """Size of the metadata device: twice what cache.rst advises, 4 MiB and 16 bytes per cache block."""
    return 2 * ((4 << 20) + 16 * (cache_bytes // (block_sectors * SECTOR_BYTES)))


@dataclass(frozen=True)
class WritecacheStatus:
    """Blocks of 4 KiB. error: the device's first error, 0 for none; writeback: blocks on their way to the origin."""

    error: int
    total: int
    free: int
    writeback: int

    @property
    def dirty(self) -> int:
        """Blocks in use: the cache keeps none that the origin has."""
        return self.total - self.free


@output_of("`dmsetup status` of a write cache")
def parse_writecache(text: str) -> WritecacheStatus:
    """Parse what follows `START LENGTH writecache`; the counters that later kernels append are ignored."""
    return WritecacheStatus(*(int(word) for word in text.split()[:4]))


@dataclass(frozen=True)
class WriteCache:
    """A named write cache (dm-writecache) over existing devices."""

    mapper: Mapper
    name: str
    origin: PurePosixPath
    fast: PurePosixPath

    def table(self) -> str:
        """The table for a block device; persistent memory would have `p`."""
        return f"0 {self.mapper.sectors(self.origin)} writecache s {self.origin} {self.fast} {WRITECACHE_BLOCK_BYTES} 0"

    def format(self) -> None:
        """Forget what is cached: the kernel makes a new cache if the first block is zero."""
        self.mapper.clear_first_block(self.fast)

    def status(self) -> WritecacheStatus:
        """How full it is; LabBroken if the name is of another target."""
        return parse_writecache(self.mapper.status(self.name))

    def detach(self) -> WritecacheStatus:
        """Flush, then map the name to only the origin, in the order of writecache.rst; returns the last status."""
        self.mapper.message(self.name, "flush")
        return parse_writecache(self.mapper.swap(self.name, self.mapper.whole(self.origin)))
