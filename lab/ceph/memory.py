"""Memory of a daemon, as its host's kernel and as the daemon itself count it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon

_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class MemoryUse:
    """Bytes. resident: pages that the kernel gave the process; pools: Ceph's own count of allocations, by purpose."""

    resident: int
    pools: Mapping[str, int]

    @property
    def accounted(self) -> int:
        return sum(self.pools.values())

    @property
    def beyond(self) -> int:
        """Programs, stacks, allocations that no pool counts, and the allocator's reserve."""
        return self.resident - self.accounted


def memory_use(client: RadosClient, daemon: Daemon) -> MemoryUse:
    """Memory of a running daemon. Its host must have its own kernel, which knows the process by its id."""
    pid = int(daemon.started().ref["pid"])
    status = daemon.host.run(["cat", f"/proc/{pid}/status"]).stdout
    return MemoryUse(resident_bytes(status), pools_of(client.tell(daemon.name, "dump_mempools")))


def resident_bytes(status: str) -> int:
    """From /proc/PID/status, see proc(5); LabBroken if it is not there."""
    match = _RESIDENT.search(status)
    if match is None:
        raise LabBroken("the kernel does not say how much memory a process holds", status[:500])
    return int(match[1]) << 10


def pools_of(dump: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by pool, from `dump_mempools`."""
    return {name: int(pool["bytes"]) for name, pool in dump["mempool"]["by_pool"].items()}
