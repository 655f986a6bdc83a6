"""Reads a kernel's log and lists the core dumps of its machine: a separate program, because guests run it too.

It imports nothing of the lab and needs only Python 3.7.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
from pathlib import Path

_COREDUMPS = "/var/lib/systemd/coredump/core.*"
_KERNEL = "/proc/sys/kernel/"


def look(boot: str, after: int, pids: list[int]) -> dict[str, object]:
    """{boot, last, lines, cores, unread}, as JSON values.

    boot, after: `boot` and `last` of the previous look; pids: processes whose working folders may have core dumps.
    lines: the kernel's log since that look; last: the number of the last record; cores: [path, time] of each core dump;
    unread: sentences on what could not be read.
    """
    now = read("/proc/sys/kernel/random/boot_id")
    unread: list[str] = []
    last = after if now == boot else -1
    lines: list[str] = []
    try:
        last, lines = log_after(last)
    except OSError as error:
        unread.append("the kernel's log may not be read: " + str(error))
    patterns, why = core_patterns(read(_KERNEL + "core_pattern"), working_folders(pids))
    unread += why
    paths = [path for pattern in patterns for path in glob.glob(pattern)]  # noqa: PTH207
    cores = sorted([path, time] for path, time in ((path, changed_ns(path)) for path in paths) if time)
    return {"boot": now, "last": last, "lines": lines, "cores": cores, "unread": unread}


def changed_ns(path: str) -> int:
    """When a file changed, in nanoseconds; 0 if it is gone: systemd removes old core dumps at any time."""
    try:
        return Path(path).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def log_after(number: int, device: str = "/dev/kmsg") -> tuple[int, list[str]]:
    """(number of the last record, texts of the records after `number`), see Documentation/ABI/testing/dev-kmsg."""
    lines: list[str] = []
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(reader, 8192)
            except BlockingIOError:
                return number, lines
            except BrokenPipeError:
                continue  # records were overwritten before they were read
            if not record:
                return number, lines
            head, _, text = record.decode(errors="replace").partition(";")
            sequence = int(head.split(",")[1])
            if sequence > number:
                number = sequence
                lines.append(text.partition("\n")[0])
    finally:
        os.close(reader)


def core_patterns(pattern: str, folders: list[str]) -> tuple[list[str], list[str]]:
    """(patterns of the file names of core dumps here, sentences on what is not read), see core(5)."""
    if pattern.startswith("|"):
        if "systemd-coredump" in pattern:
            return [_COREDUMPS], []
        return [], ["core dumps go to " + pattern[1:].split(maxsplit=1)[0] + ", which is not asked for them"]
    if not pattern:
        return [], ["the kernel keeps no core dumps: its core_pattern is empty"]
    name = re.sub(r"%.", "*", pattern.replace("%%", "%")) + "*"
    return [name] if name.startswith("/") else [folder + "/" + name for folder in folders], []


def names_processes() -> bool:
    """Whether the name of a core dump shows which process it came from."""
    pattern = read(_KERNEL + "core_pattern")
    return any(word in pattern for word in ("%p", "%P", "|")) or read(_KERNEL + "core_uses_pid") != "0"


def working_folders(pids: list[int]) -> list[str]:
    """The working folders of those processes that still run."""
    folders = set()
    for pid in pids:
        try:
            folders.add(os.readlink("/proc/" + str(pid) + "/cwd"))  # noqa: PTH115
        except OSError:
            continue  # it has ended
    return sorted(folders)


def read(path: str) -> str:
    """The content of a small text file, without the newline at its end."""
    return Path(path).read_text().strip()


if __name__ == "__main__":
    print(json.dumps(look(**json.loads(sys.stdin.read()))))
