"""Measures once per image how much slower an emulated host is. Every timeout there is longer by this factor."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.runs import write_json
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.host import Host, lacks_aio

MIN_FACTOR = 2.0
MAX_FACTOR = 10.0

_LOOP = """
import time
began = time.process_time()
table = {}
for number in range(60000):
    table[number % 997] = table.get(number % 991, 0) + number
print(time.process_time() - began)
"""


def patience_for(images: Images, hosts: Iterable[Host], home: Path) -> float:
    """1.0 if every host is native, else the largest factor of the emulated ones.

    The factor is the CPU time of an interpreter loop, emulated over native. It is stored beside the images, because it
    depends on the machine and the image. An interpreter is the worst case for an emulator: daemons were measured at 4
    to 10 times (mkfs, boot), so the factor is kept between 2 and 10.
    """
    native = [host for host in hosts if not host.emulated]
    emulated = {host.arch: host for host in hosts if host.emulated}
    if not emulated:
        return 1.0
    factors = []
    for arch, host in emulated.items():
        # An emulated machine has another factor than an emulated program.
        kind = "patience" if lacks_aio(host) else "patience-machine"
        store = home / "images" / f"{kind}-{images[arch].key[:16]}.json"
        if not store.is_file():
            baseline = loop_s(native[0]) if native else _own_loop_s()
            write_json(store, {"factor": loop_s(host) / baseline})
        factors.append(float(json.loads(store.read_text())["factor"]))
    return min(MAX_FACTOR, max(MIN_FACTOR, *factors))


def loop_s(host: Host) -> float:
    """CPU seconds of a fixed interpreter loop on a host, without the interpreter's start."""
    return float(host.run(["python3", "-c", _LOOP], timeout_s=300).stdout)


def _own_loop_s() -> float:
    return float(process.run([sys.executable, "-c", _LOOP], timeout_s=300).stdout)
