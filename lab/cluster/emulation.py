"""How much slower an emulated host is: measured once per image, the factor on every deadline there."""

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
    """1.0 when every host is native, else the largest measured factor of the emulated ones.

    The figure is the ratio of one interpreter loop's CPU time, emulated over native, and is remembered beside the
    image because it is a property of the machine and the image. An interpreter is the worst case for an emulator:
    daemons were measured at 4 to 10 times (mkfs, boot), so the factor is kept between 2 and 10.
    """
    native = [host for host in hosts if not host.emulated]
    emulated = {host.arch: host for host in hosts if host.emulated}
    if not emulated:
        return 1.0
    factors = []
    for arch, host in emulated.items():
        # A whole machine is emulated otherwise than a single program.
        kind = "patience" if lacks_aio(host) else "patience-machine"
        store = home / "images" / f"{kind}-{images[arch].key[:16]}.json"
        if store.is_file():
            factors.append(float(json.loads(store.read_text())["factor"]))
            continue
        baseline = loop_s(native[0]) if native else _own_loop_s()
        factor = loop_s(host) / baseline
        write_json(store, {"factor": factor})
        factors.append(factor)
    return min(MAX_FACTOR, max(MIN_FACTOR, *factors))


def loop_s(host: Host) -> float:
    """CPU seconds that a fixed interpreter loop takes on a host, start-up not counted."""
    return float(host.run(["python3", "-c", _LOOP], timeout_s=300).stdout)


def _own_loop_s() -> float:
    return float(process.run([sys.executable, "-c", _LOOP], timeout_s=300).stdout)
