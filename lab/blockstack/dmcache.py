"""dm-cache, a fast device in front of a slow one: its table, counters and metadata, and how to flush and detach it.

Source: the kernel's Documentation/admin-guide/device-mapper/cache.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.blockstack.mapper import SECTOR_BYTES, Mapper
from cephlab.lab.providers.host import Host

PAPER_BLOCK_SECTORS = 512
"""256 KiB, as in the 2015 paper's table. Its text says 512 bytes, but the kernel takes multiples of 32 KiB only."""
_FLUSH_S = 120.0
_CLEANER = "cleaner"


class DmCacheMode(StrEnum):
    """Where a write goes before it is acknowledged: the cache alone, both, or the origin alone."""

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

    @property
    def hit_ratio(self) -> float:
        """Hits as a share of all accesses so far; 0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


def parse_status(text: str) -> CacheStatus:
    """Parse what follows `START LENGTH cache`; LabBroken for a failed cache or another target's line."""
    words = text.split()
    try:
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
    except (ValueError, IndexError, StopIteration) as error:
        raise LabBroken("a cache's status cannot be read", f"dmsetup status: {text!r}") from error


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
        """Forget what is cached: the kernel makes new metadata where the first block is zero."""
        self.mapper.clear_first_block(self.metadata)

    def status(self) -> CacheStatus:
        return parse_status(self.mapper.status(self.name))

    def keep_dirty(self) -> None:
        """Write nothing back until the next table. Otherwise smq cleans a cache that is idle for a second.

        With a threshold of 0 the kernel never counts as idle (`spare_migration_bandwidth` of dm-cache-target.c); smq
        then cleans only once three quarters of the cache are dirty.
        """
        self.mapper.message(self.name, "migration_threshold 0")

    def flush(self, timeout_s: float = _FLUSH_S) -> CacheStatus:
        """Write every dirty block to the origin with the policy `cleaner`, and return the status afterwards.

        Programs may go on meanwhile. NotReached where it takes longer than timeout_s.
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
        """Flush, then map the cache's name to the origin alone; returns the status after the flush."""
        status = self.flush(timeout_s)
        self.drop()
        return status

    def drop(self) -> None:
        """Map the cache's name to the origin alone; dirty blocks are lost."""
        self.mapper.swap(self.name, self.mapper.whole(self.origin))


def check_metadata(host: Host, metadata: PurePosixPath) -> str:
    """What cache_check complains of in the metadata of an unused cache; empty where it finds nothing."""
    result = host.run(["cache_check", str(metadata)], check=False)
    return "" if result.code == 0 else (result.stderr + result.stdout).strip() or f"status {result.code}"


def metadata_bytes(cache_bytes: int, block_sectors: int) -> int:
    """Size of the metadata device: twice the 4 MiB and 16 bytes a cache block that cache.rst advises."""
    return 2 * ((4 << 20) + 16 * (cache_bytes // (block_sectors * SECTOR_BYTES)))
