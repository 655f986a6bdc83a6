"""CPU time of a guest's QEMU by kind of thread: the guest's processors, and the host's side of its disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.telemetry.accounting import PROC, thread_kind

GUEST = "CPU"
"""Names of threads that run the guest's processors start so; without KVM they emulate."""
MACHINE = frozenset({"worker", "IO mon_iothread", "call_rcu"})
"""Threads that serve the machine and no RBD image: QEMU's pool for files, its monitor, its own housekeeping."""


@dataclass(frozen=True)
class QemuSpent:
    """CPU seconds so far. threads: kind -> seconds; main: kind of QEMU's first thread, which serves the machine."""

    threads: Mapping[str, float]
    main: str

    @property
    def disk_s(self) -> float:
        """Time for the RBD disk, in QEMU's thread for it and in librbd's: native code even where the guest is not."""
        others = MACHINE | {self.main}
        return sum(s for kind, s in self.threads.items() if not kind.startswith(GUEST) and kind not in others)


def spent(pid: int, *, proc: Path = PROC) -> QemuSpent:
    """CPU time of a QEMU to the nanosecond (schedstat in the kernel's Documentation/scheduler/sched-stats.rst)."""
    threads: dict[str, float] = defaultdict(float)
    main = ""
    try:
        for task in (proc / str(pid) / "task").iterdir():
            kind = thread_kind((task / "comm").read_text().strip())
            threads[kind] += int((task / "schedstat").read_text().split()[0]) / 1e9
            if task.name == str(pid):
                main = kind
    except (OSError, IndexError) as error:
        raise LabBroken(f"process {pid} cannot be accounted for", str(error), "has it ended?") from error
    return QemuSpent(dict(threads), main)
