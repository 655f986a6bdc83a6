"""Reads and writes kernel settings, files and swap on a host under its own Python: JSON in, JSON out.

Request: {"address": IPv4 or "", "read": [pattern], "write": [{"path", "data": base64 or null, "create": bool}],
"swap": null, "off", or the lines of an earlier /proc/swaps}. Answer: {"read": {pattern: {path: {"data"} or {"error"}}},
"write": [null or error], "swap": [error]}. Writing comes before reading.
"""

import base64
import ctypes
import errno
import fcntl
import glob
import json
import os
import re
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIOCGIFADDR = 0x8915
SWAP_FLAG_PREFER = 0x8000
_OCTAL = re.compile(r"\\([0-7]{3})")


def words(error: OSError) -> str:
    """Name and meaning of an error number."""
    number = error.errno or 0
    return f"{errno.errorcode.get(number, number)}: {os.strerror(number)}"


def interface_of(address: str) -> str | None:
    """Name of the interface that carries an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                known = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue
            # A loopback interface answers for the whole of 127/8 but reports only one address.
            if known[20:24] == socket.inet_aton(address) or (known[20] == 127 and address.startswith("127.")):
                return name
    return None


def read(pattern: str, address: str) -> dict[str, dict[str, str]]:
    """Every file that the pattern matches: its content, or why it cannot be read."""
    if "{interface}" in pattern:
        name = interface_of(address) if address else None
        if name is None:
            return {}
        pattern = pattern.replace("{interface}", name)
    contents = {}
    for path in sorted(glob.glob(pattern)):  # noqa: PTH207 - an absolute pattern
        try:
            contents[path] = {"data": base64.b64encode(Path(path).read_bytes()).decode()}
        except OSError as error:
            contents[path] = {"error": words(error)}
    return contents


def write(item: dict[str, Any]) -> str | None:
    """Write or remove a file; returns the error, if any."""
    path = Path(item["path"])
    try:
        if item["data"] is None:
            path.unlink(missing_ok=True)
            return None
        flags = os.O_WRONLY | os.O_TRUNC
        if item["create"]:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags |= os.O_CREAT
        target = os.open(path, flags, 0o644)
        try:
            # In one call, because the kernel takes each write to a setting as a whole value.
            os.write(target, base64.b64decode(item["data"]))
        finally:
            os.close(target)
    except OSError as error:
        return words(error)
    return None


def areas(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Path and priority of each line of /proc/swaps; the kernel writes spaces in paths as octal escapes."""
    for line in lines[1:]:
        path, _kind, _size, _used, priority = line.rsplit(None, 4)
        yield _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), path), int(priority)


def change_swap(wanted: str | list[str]) -> list[str]:
    """Switch swap off, or on again as in an earlier /proc/swaps; returns the errors."""
    libc = ctypes.CDLL(None, use_errno=True)
    now = list(areas(Path("/proc/swaps").read_text().splitlines()))
    errors = []

    def call(name: str, path: str, *flags: ctypes.c_int) -> None:
        if getattr(libc, name)(path.encode(), *flags) != 0:
            errors.append(f"{name} {path}: {os.strerror(ctypes.get_errno())}")

    if isinstance(wanted, str):
        for path, _ in now:
            call("swapoff", path)
        return errors
    there = {path for path, _ in now}
    for path, priority in areas(wanted):
        if path not in there:
            # The kernel assigns negative priorities itself, in the order in which swap is switched on.
            call("swapon", path, ctypes.c_int(SWAP_FLAG_PREFER | priority if priority >= 0 else 0))
    return errors


def main() -> None:
    """Answer the one request on stdin."""
    request = json.load(sys.stdin)
    answer = {
        "write": [write(item) for item in request["write"]],
        "swap": change_swap(request["swap"]) if request["swap"] is not None else [],
        "read": {pattern: read(pattern, request["address"]) for pattern in request["read"]},
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
