"""What a guest's QEMU has spent, thread by thread: the guest's processors apart from its disk's host side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabBroken
from lab.telemetry.accounting import PROC, thread_kind

GUEST = "CPU"
"""QEMU's threads that are the guest's processors; emulated, where there is no KVM."""
MACHINE = frozenset({"worker", "IO mon_iothread", "call_rcu"})
"""Threads that serve the machine and no RBD image: QEMU's pool for files, its monitor, its own housekeeping."""


@dataclass(frozen=True)
class Spent:
    """CPU seconds so far. threads: kind -> seconds; main: the kind of QEMU's first thread, which serves the machine."""

    threads: Mapping[str, float]
    main: str

    @property
    def disk_s(self) -> float:
        """The host's side of the RBD disk: QEMU's thread for it, and librbd's. Native code, whatever the guest is."""
        return sum(spent for kind, spent in self.threads.items() if self._serves_disk(kind))

    @property
    def guest_s(self) -> float:
        return sum(spent for kind, spent in self.threads.items() if kind.startswith(GUEST))

    def _serves_disk(self, kind: str) -> bool:
        return not kind.startswith(GUEST) and kind not in MACHINE and kind != self.main


def spent(pid: int, *, proc: Path = PROC) -> Spent:
    """What a QEMU has spent, to the nanosecond (schedstat in the kernel's Documentation/scheduler/sched-stats.rst)."""
    found: dict[str, float] = defaultdict(float)
    main = ""
    try:
        for task in (proc / str(pid) / "task").iterdir():
            kind = thread_kind((task / "comm").read_text().strip())
            found[kind] += int((task / "schedstat").read_text().split()[0]) / 1e9
            if task.name == str(pid):
                main = kind
    except (OSError, IndexError) as error:
        raise LabBroken(f"process {pid} cannot be accounted for", str(error), "has it ended?") from error
    return Spent(dict(found), main)
