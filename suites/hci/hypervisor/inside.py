"""The agent in a guest, its first process, under the image's Python: runs programs, writes and acknowledges blocks.

It answers each line of JSON on a virtio port with one line of JSON, and imports nothing of the lab. When it ends, the
guest ends: the kernel panics without its first process, and QEMU is told not to reboot.
"""

import hashlib
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PORT = "org.cephlab.agent"
BLOCK_BYTES = 4096
STRIDE = 2654435761
"""Odd, so that it visits every block of a device whose number of blocks is a power of two."""

_ENVIRONMENT = {"HOME": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def content(seed: int, number: int) -> bytes:
    """Content of a block. It is computed from the number, so that any other content is detected."""
    return hashlib.sha256(f"{seed}/{number}".encode()).digest() * (BLOCK_BYTES // 32)


def place(seed: int, number: int, blocks: int) -> int:
    """Offset of a block, different for every block of the device. blocks: on the device, a power of two."""
    return (seed + number * STRIDE) % blocks * BLOCK_BYTES


class BlockWriter:
    """Writes with direct I/O, so that unflushed writes wait in QEMU or below and not in the guest's page cache."""

    def __init__(self, device: str) -> None:
        self.file = os.open(device, os.O_RDWR | os.O_DIRECT)
        self.buffer = mmap.mmap(-1, BLOCK_BYTES)  # direct I/O takes whole pages

    def write(self, request: Mapping[str, Any]) -> int:
        """Write `count` blocks from `first` on, then flush if requested; returns how many were written."""
        seed, first, count = int(request["seed"]), int(request["first"]), int(request["count"])
        for number in range(first, first + count):
            self.buffer[:] = content(seed, number)
            os.pwritev(self.file, [self.buffer], place(seed, number, int(request["blocks"])))
        if request["flush"]:
            os.fdatasync(self.file)
        return count


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a program to its end; returns its status and both outputs."""
    result = subprocess.run(
        request["argv"], capture_output=True, env=_ENVIRONMENT, stdin=subprocess.DEVNULL, check=False, cwd="/tmp"
    )
    return {"code": result.returncode, "out": result.stdout.decode(), "err": result.stderr.decode()}


def operations() -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
    """The requests that it answers, by name."""
    writers: dict[str, BlockWriter] = {}

    def write(request: Mapping[str, Any]) -> int:
        device = str(request["device"])
        if device not in writers:
            writers[device] = BlockWriter(device)
        return writers[device].write(request)

    return {"hello": lambda _request: os.uname().release, "run": run, "write": write}


def answer(known: Mapping[str, Callable[[Mapping[str, Any]], Any]], line: bytes) -> bytes:
    """The answer to one line. An OSError is reported in the answer."""
    request = json.loads(line)
    try:
        reply = {"ok": known[request["op"]](request)}
    except OSError as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    return json.dumps(reply).encode() + b"\n"


def port() -> Path:
    """Wait for the port to the lab, and return its device."""
    while True:
        for name in Path("/sys/class/virtio-ports").glob("*/name"):
            if name.read_text().strip() == PORT:
                return Path("/dev", name.parent.name)
        time.sleep(0.02)


def main() -> None:
    """Answer until the lab closes the port."""
    known = operations()
    with port().open("r+b", buffering=0) as link:
        pending = b""
        while data := link.read(1 << 16):
            pending += data
            while b"\n" in pending:
                line, _, pending = pending.partition(b"\n")
                left = memoryview(answer(known, line))
                while left:
                    left = left[link.write(left) :]


if __name__ == "__main__":
    main()
    sys.exit(0)
