"""dm-writecache: caches writes only, up to a watermark; reads of anything else go to the origin.

Source: the kernel's Documentation/admin-guide/device-mapper/writecache.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.blockstack.mapper import Mapper

BLOCK_BYTES = 4096
"""The largest that it takes."""


@dataclass(frozen=True)
class WritecacheStatus:
    """Blocks of 4 KiB. error: the device's first error, 0 for none; writeback: blocks on their way to the origin."""

    error: int
    total: int
    free: int
    writeback: int

    @property
    def dirty(self) -> int:
        """Blocks in use: it keeps none that the origin has."""
        return self.total - self.free


def parse_writecache(text: str) -> WritecacheStatus:
    """Parse what follows `START LENGTH writecache`; the counters that later kernels append are ignored."""
    try:
        return WritecacheStatus(*(int(word) for word in text.split()[:4]))
    except (ValueError, TypeError) as error:
        raise LabBroken("a write cache's status cannot be read", f"dmsetup status: {text!r}") from error


@dataclass(frozen=True)
class WriteCache:
    """A named write cache over existing devices."""

    mapper: Mapper
    name: str
    origin: PurePosixPath
    fast: PurePosixPath

    def table(self) -> str:
        """For a block device; persistent memory would be `p`."""
        return f"0 {self.mapper.sectors(self.origin)} writecache s {self.origin} {self.fast} {BLOCK_BYTES} 0"

    def format(self) -> None:
        """Forget what is cached: the kernel makes a new cache where the first block is zero."""
        self.mapper.clear_first_block(self.fast)

    def status(self) -> WritecacheStatus:
        """How full it is; LabBroken where another target has the name."""
        return parse_writecache(self.mapper.status(self.name))

    def detach(self) -> WritecacheStatus:
        """Flush, then map the name to the origin alone, in the order of writecache.rst; returns the last status."""
        self.mapper.message(self.name, "flush")
        return parse_writecache(self.mapper.swap(self.name, self.mapper.whole(self.origin)))
