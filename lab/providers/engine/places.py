"""Where nodes have what a run keeps in them, and the label that says which home a run is of."""

from __future__ import annotations

from pathlib import PurePosixPath

HOME_LABEL = "cephlab.home"
"""Label with the folder of the run, because two folders may each have a run of the same name."""

NODE_DIRECTORY = PurePosixPath("/cephlab/node")
DISKS_DIRECTORY = PurePosixPath("/cephlab/disks")
FILE = "block"
"""The sparse file that is a disk, in the disk's own folder."""


def disk_directory(disk: str) -> PurePosixPath:
    """A disk's own folder, in a node that has it."""
    return DISKS_DIRECTORY / disk


def disk_file(disk: str) -> PurePosixPath:
    """The disk as programs in the node see it."""
    return disk_directory(disk) / FILE
