"""Runs on a host, under the image's Python: reads the log of a dm-log-writes device and replays it onto another device.

The format is that of the kernel's drivers/md/dm-log-writes.c: a super block in the first sector, then for each entry a
sector with its header, followed by its data. A write enters the log when a flush or FUA covers it. So a disk that loses
power at a mark must have kept everything before that mark.
"""

import json
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = 0x6A736677736872
VERSION = 1
SUPER = struct.Struct("<QQQI")
ENTRY = struct.Struct("<QQQQ")
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
CHUNK = 1 << 20
PAGE = 4096


class WriteLog:
    """An open log; iterating yields (sector, sectors, flags, text of a mark, offset of the data in the log)."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        magic, version, _entries, self.sector_bytes = SUPER.unpack(self.read(0, SUPER.size))
        if magic != MAGIC or version != VERSION:
            raise SystemExit(f"no log of dm-log-writes: magic {magic:#x}, version {version}")

    def read(self, offset: int, size: int) -> bytes:
        # Whole pages only: a device does not return parts of a sector.
        start = offset - offset % PAGE
        end = -(-(offset + size) // PAGE) * PAGE
        self.file.seek(start)
        return self.file.read(end - start)[offset - start : offset - start + size]

    def __iter__(self) -> Iterator[tuple[int, int, int, str, int]]:
        at = self.sector_bytes
        while True:
            head = self.read(at, self.sector_bytes)
            if len(head) < self.sector_bytes:
                return
            sector, sectors, flags, size = ENTRY.unpack(head[: ENTRY.size])
            if not (sectors or flags):
                return  # The log ends here: the count in the super block lags behind until the device is removed.
            at += self.sector_bytes
            mark = head[ENTRY.size : ENTRY.size + size].decode(errors="replace").rstrip("\0") if flags & MARK else ""
            yield sector, sectors, flags, mark, at
            if not flags & DISCARD:
                at += sectors * self.sector_bytes


def survey(log: WriteLog) -> dict[str, Any]:
    """Count the log's entries, bytes and flushes, and note the index of every mark."""
    summary: dict[str, Any] = {"entries": 0, "bytes": 0, "flushes": 0, "marks": {}}
    for index, (_sector, sectors, flags, mark, _at) in enumerate(log):
        summary["entries"] = index + 1
        summary["bytes"] += sectors * log.sector_bytes
        summary["flushes"] += bool(flags & (FLUSH | FUA))
        if flags & MARK:
            summary["marks"][mark] = index
    return summary


def replay(log: WriteLog, target: BinaryIO, first: int, until: int) -> int:
    """Replay the entries first <= index < until; returns how many of them wrote something."""
    wrote = 0
    for index, (sector, sectors, flags, _mark, at) in enumerate(log):
        if index >= until:
            break
        if index < first or not sectors:
            continue
        wrote += 1
        target.seek(sector * log.sector_bytes)
        for offset in range(0, sectors * log.sector_bytes, CHUNK):
            size = min(CHUNK, sectors * log.sector_bytes - offset)
            target.write(b"\0" * size if flags & DISCARD else log.read(at + offset, size))
    return wrote


def main(argv: Sequence[str]) -> dict[str, Any]:
    """Survey a log (arguments: LOG), or replay it (arguments: LOG TARGET FIRST UNTIL)."""
    with Path(argv[0]).open("rb") as file:
        log = WriteLog(file)
        if len(argv) == 1:
            return survey(log)
        with Path(argv[1]).open("r+b") as device:
            return {"wrote": replay(log, device, int(argv[2]), int(argv[3]))}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])))
