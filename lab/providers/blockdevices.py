"""Finds the block device of this machine that holds a folder, because the kernel limits I/O by block device."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.spec.clusterspec import Disk

_SYS = Path("/sys")


def limited(disks: Iterable[Disk]) -> list[Disk]:
    """The disks that have a limit."""
    return [disk for disk in disks if disk.limits.any()]


@dataclass(frozen=True)
class BlockDevices:
    """This machine's block devices, read from `sys`."""

    sys: Path = _SYS
    dev: Path = Path("/dev")
    mounts: Path = Path("/proc/self/mounts")

    def below(self, directory: Path) -> Path:
        """The whole disk that holds a directory; Unavailable when its file system is not on a block device."""
        try:
            number = directory.stat().st_dev
        except OSError as error:
            raise Unavailable(f"the engine's folder {directory} cannot be read", str(error)) from error
        entry = self.sys / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
        if not entry.exists():
            raise Unavailable(
                f"disk limits need the engine's {directory} on a block device",
                f"device number {os.major(number)}:{os.minor(number)} is not a block device",
                "move the engine's data to ext4 or xfs on its own disk, or leave the limits out",
            )
        real = entry.resolve()
        if (real / "partition").exists():
            real = real.parent  # the kernel limits whole disks only
        return self.dev / real.name.replace("!", "/")

    def limits(self, directory: Path) -> bool:
        """Whether the kernel can limit a directory's disk (see `below`)."""
        try:
            self.below(directory)
        except Unavailable:
            return False
        return True

    def loops_below(self, directory: Path) -> list[Path]:
        """Loop devices whose file is in a directory, or was there before it was removed."""
        return [
            self.dev / backing.parent.parent.name
            for backing in sorted((self.sys / "block").glob("loop*/loop/backing_file"))
            if directory in _path_in(backing).parents
        ]

    def free_loops(self) -> int:
        return sum(not (entry / "loop").exists() for entry in (self.sys / "block").glob("loop*"))

    def makes_loops(self) -> bool:
        """Whether a loop device is made when none is free. Only in a devtmpfs does its file appear by itself."""
        kinds = [line.split()[1:3] for line in self.mounts.read_text(errors="replace").splitlines()]
        return (self.dev / "loop-control").exists() and [str(self.dev), "devtmpfs"] in kinds


def _path_in(attribute: Path) -> Path:
    """The path that an attribute of a device holds, which need not be UTF-8; empty if the device is gone meanwhile."""
    try:
        return Path(os.fsdecode(attribute.read_bytes().strip()))
    except OSError:
        return Path()
