"""Disks for OSDs: reads the label of a used disk, refuses a disk with data, wipes and verifies disks, checks stores."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CephTrouble, LabBroken, SpecError, output_of
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import Host, preloading

LABEL_BYTES = 4096
"""BlueStore's label is the first block of each of its devices (BDEV_LABEL_BLOCK_SIZE)."""

_MAGIC = b"bluestore block device\n"
_TOOL_S = 60.0
_WHOLE_S = 300.0
"""Reading 10 GiB of holes takes 4 s natively. A full disk takes as long as the machine's own disk needs."""


class DiskInUse(SpecError):
    """A disk contains data. The error names its owner."""


@dataclass(frozen=True)
class Label:
    """BlueStore's label of a device. role: `main`, `bluefs db` or `bluefs wal`; empty if the label has none."""

    osd_uuid: str
    role: str
    osd_id: str = ""
    cluster: str = ""

    def __str__(self) -> str:
        owner = f"osd.{self.osd_id}" if self.osd_id else "an OSD"
        cluster = f" of cluster {self.cluster}" if self.cluster else ""
        return f"{self.role or 'a device'} of {owner}{cluster}, OSD uuid {self.osd_uuid}"


def label_of(host: Host, disk: str, *, patience: float = 1.0, preload: Sequence[PurePosixPath] = ()) -> Label | None:
    """The label of a disk, read with ceph-bluestore-tool; None if its first block is not a label."""
    device = host.disk(disk)
    if not _first_block(host, disk).startswith(_MAGIC):
        return None
    argv = ["ceph-bluestore-tool", "show-label", "--dev", str(device)]
    output = run_tool(host, argv, timeout_s=_TOOL_S * patience, env=preloading(preload)).stdout
    return parse_label(output)


@output_of("ceph-bluestore-tool")
def parse_label(output: str) -> Label:
    """Read what `ceph-bluestore-tool show-label` prints: JSON of one device."""
    label = next(iter(json.loads(output[output.index("{") :]).values()))
    role, osd_id, fsid = (str(label.get(key, "")) for key in ("description", "whoami", "ceph_fsid"))
    return Label(str(label["osd_uuid"]), role, osd_id, fsid)


def refuse_used(
    host: Host, disks: Sequence[str], *, patience: float = 1.0, preload: Sequence[PurePosixPath] = ()
) -> None:
    """DiskInUse if the first block of a disk is not empty. Changes nothing."""
    for disk in disks:
        label = label_of(host, disk, patience=patience, preload=preload)
        if label or _first_block(host, disk).strip(b"\0"):
            owner = f": {label}" if label else " that is no OSD's"
            raise DiskInUse(
                f"disk {disk} in {host.name} contains data{owner}",
                "a new OSD on this disk would destroy the data",
                "take another disk, or wipe this one if nobody needs the data",
            )


def wipe(host: Host, disk: str, *, patience: float = 1.0) -> int:
    """Erase a whole disk and read it back; returns the bytes checked. LabBroken names an offset that is not zero."""
    device = str(host.disk(disk))
    size = int(host.run(["python3", "-c", _WIPE, device], timeout_s=_WHOLE_S * patience).stdout)
    require_zero(host, disk, size, patience=patience)
    return size


def require_zero(host: Host, disk: str, size_bytes: int, *, patience: float = 1.0) -> None:
    """Read a whole disk; LabBroken names the first offset that is not zero, or says that the disk is too short."""
    argv = ["cmp", f"--bytes={size_bytes}", str(host.disk(disk)), "/dev/zero"]
    compared = host.run(argv, timeout_s=_WHOLE_S * patience, check=False)
    if compared.code != 0:
        raise LabBroken(f"disk {disk} in {host.name} is not empty", (compared.stdout + compared.stderr).strip())


def _first_block(host: Host, disk: str) -> bytes:
    return host.run(["head", "-c", str(LABEL_BYTES), str(host.disk(disk))]).stdout_bytes


# A file becomes one hole. On a block device every block is overwritten.
_WIPE = """
import os, stat, sys

path = sys.argv[1]
disk = os.open(path, os.O_RDWR)
size = os.lseek(disk, 0, os.SEEK_END)
if stat.S_ISREG(os.fstat(disk).st_mode):
    os.ftruncate(disk, 0)
    os.ftruncate(disk, size)
else:
    zeros = bytes(4 << 20)
    for at in range(0, size, len(zeros)):
        os.pwrite(disk, zeros[: size - at], at)
os.fsync(disk)
print(size)
"""


_CLEAN = "fsck success"
_FSCK_S = 120.0


@dataclass(frozen=True)
class Fsck:
    """Result of `ceph-bluestore-tool fsck`. output: of the program, or why it could not open the store."""

    osd: str
    clean: bool
    output: str


def fsck(daemon: Daemon, *, deep: bool, patience: float) -> Fsck:
    """Check an OSD's store on its host. deep: check all data too, after replaying deferred writes to the disk.

    Without `deep` nothing is written: BlueStore::_fsck opens the store read-only.
    """
    data = daemon.host.directory / daemon.name
    argv = ["ceph-bluestore-tool", "fsck", "--path", str(data), "--deep", "1" if deep else "0"]
    try:
        result = run_tool(daemon.host, argv, timeout_s=_FSCK_S * patience, env=preloading(daemon.preload))
    except CephTrouble as error:
        return Fsck(daemon.name, clean=False, output=f"{error.what}\n{error.detail}")
    output = result.stdout + result.stderr
    return Fsck(daemon.name, clean=_CLEAN in output, output=output.strip())
