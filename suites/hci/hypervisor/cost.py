"""What a guest's QEMU has spent, thread by thread: the guest's processors apart from its disk's host side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.telemetry.accounting import PROC, thread_kind

GUEST = "CPU"
"""QEMU's threads that are the guest's processors; emulated, where there is no KVM."""
MACHINE = frozenset({"worker", "IO mon_iothread", "call_rcu"})
"""Threads that serve the machine and no RBD image: QEMU's pool for files, its monitor, its own housekeeping."""


@dataclass(frozen=True)
class QemuSpent:
    """CPU seconds so far. threads: kind -> seconds; main: the kind of QEMU's first thread, which serves the machine."""

    threads: Mapping[str, float]
    main: str

    @property
    def disk_s(self) -> float:
        """The host's side of the RBD disk: QEMU's thread for it, and librbd's. Native code, whatever the guest is."""
        others = MACHINE | {self.main}
        return sum(s for kind, s in self.threads.items() if not kind.startswith(GUEST) and kind not in others)


def spent(pid: int, *, proc: Path = PROC) -> QemuSpent:
    """What a QEMU has spent, to the nanosecond (schedstat in the kernel's Documentation/scheduler/sched-stats.rst)."""
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
