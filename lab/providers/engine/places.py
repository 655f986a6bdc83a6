"""Where a run's files are inside its nodes, and the label with a run's home."""

from pathlib import PurePosixPath

HOME_LABEL = "cephlab.home"
"""Label with the home of a run, because two homes may each have a run of the same name."""

NODE_DIRECTORY = PurePosixPath("/cephlab/node")
DISKS_DIRECTORY = PurePosixPath("/cephlab/disks")
FILE = "block"
"""Name of the sparse file or link that is a disk, in the disk's own folder."""


def disk_directory(disk: str) -> PurePosixPath:
    """A disk's own folder inside its node."""
    return DISKS_DIRECTORY / disk


def disk_file(disk: str) -> PurePosixPath:
    """The disk, as programs in its node see it."""
    return disk_directory(disk) / FILE
