"""A bit that flips on a disk: stored data changes without an error."""

from __future__ import annotations

from collections.abc import Sequence

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.host import Host

NEEDLE_BYTES = 64
BLOCK_BYTES = 4096
"""BlueStore's smallest allocation: contents are looked for at multiples of it."""

_SCAN_S = 120.0


def flip_bit(host: Host, disk: str, contents: Sequence[bytes], *, patience: float = 1.0) -> tuple[int, ...]:
    """Flip the lowest bit of the first byte of every block on a disk that begins like one of the contents.

    contents: at least NEEDLE_BYTES each, as written at the beginning of a block. The disk may be in use. All such
    blocks are hit: freed ones keep their content, perhaps from an earlier run with the same seed. Returns the offsets
    on the disk; LabBroken when no block begins so. Only a repair by Ceph undoes it.
    """
    short = [content for content in contents if len(content) < NEEDLE_BYTES]
    if short:
        raise LabBroken(f"{len(short[0])} bytes are too few to be found on a disk", f"wanted {NEEDLE_BYTES} at least")
    needles = b"".join(content[:NEEDLE_BYTES] for content in contents)
    argv = ["python3", "-c", _FLIP, str(host.disk(disk)), str(NEEDLE_BYTES), str(BLOCK_BYTES)]
    answer = host.run(argv, stdin=needles, timeout_s=_SCAN_S * patience).stdout.split()
    if not answer:
        raise LabBroken(f"disk {disk} holds no block that begins like the given content", f"searched {host.name}")
    return tuple(int(offset) for offset in answer)


_FLIP = """
import errno, os, sys

path, length, block = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
wanted = sys.stdin.buffer.read()
needles = [wanted[at : at + length] for at in range(0, len(wanted), length)]
CHUNK = 8 << 20
EMPTY = bytes(CHUNK)


def extents(disk, end):
    at = 0
    while at < end:
        try:
            at = os.lseek(disk, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a device does not tell where its holes are
                yield at, end
            return
        hole = os.lseek(disk, at, os.SEEK_HOLE)
        yield at // block * block, hole
        at = hole


def places(disk):
    for start, stop in extents(disk, os.lseek(disk, 0, os.SEEK_END)):
        for at in range(start, stop, CHUNK):
            piece = os.pread(disk, min(CHUNK, stop - at), at)
            # A guest has less memory than its disks are large.
            os.posix_fadvise(disk, at, len(piece), os.POSIX_FADV_DONTNEED)
            if piece == EMPTY[: len(piece)]:
                continue
            for needle in needles:
                offset = piece.find(needle)
                while offset >= 0:
                    if offset % block == 0:
                        yield at + offset
                    offset = piece.find(needle, offset + 1)


disk = os.open(path, os.O_RDWR)
for place in sorted(set(places(disk))):
    byte = os.pread(disk, 1, place)[0]
    os.pwrite(disk, bytes([byte ^ 1]), place)
    print(place)
os.fsync(disk)
"""
