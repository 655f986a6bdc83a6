"""Reads what the kernel accounts to a process tree: CPU time, also by thread, storage I/O, resident memory."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import LabBroken, output_of
from cephlab.lab.telemetry import account_program, counters
from cephlab.lab.telemetry.account_program import clock_s, texts_of
from cephlab.lab.telemetry.demand import Role

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


@dataclass(frozen=True)
class KernelUnits:
    """The units a kernel counts in: seconds per clock tick, bytes per page."""

    tick_s: float
    page_bytes: int


HERE = KernelUnits(TICK_S, PAGE_BYTES)

_NUMBER = re.compile(r"[-:_]?\d+$")
_LOOKS = 20
_SPENT = ("cpu_s", "user_s", "system_s", "read_bytes", "write_bytes", "switches")
_COLUMNS = {"received_bytes": 0, "received_packets": 1, "sent_bytes": 8, "sent_packets": 9}
"""Columns of /proc/PID/net/dev (proc_pid_net(5))."""


@dataclass(frozen=True)
class Usage:
    """Counters since the processes began; the difference of two is what was used in between.

    cpu_s: exact; user_s, system_s: cpu_s as split by the kernel; read_bytes, write_bytes: at the storage layer, not in
    caches; resident_bytes: now; switches: voluntary context switches; threads: thread name without its number -> CPU
    seconds, in clock ticks.
    """

    cpu_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    read_bytes: int = 0
    write_bytes: int = 0
    resident_bytes: int = 0
    switches: int = 0
    threads: Mapping[str, float] = field(default_factory=dict)

    def since(self, before: Usage) -> Usage:
        """What was used after `before`; resident memory is the current one."""
        threads = {name: spent - before.threads.get(name, 0.0) for name, spent in self.threads.items()}
        return replace(self, **{key: getattr(self, key) - getattr(before, key) for key in _SPENT}, threads=threads)


def together(usages: Iterable[Usage]) -> Usage:
    """The sum of several trees."""
    parts = list(usages)
    sums = {key: sum(getattr(usage, key) for usage in parts) for key in (*_SPENT, "resident_bytes")}
    return Usage(**sums, threads=counters.total(usage.threads for usage in parts))


def tree(pid: int) -> tuple[int, ...]:
    """A process and all its descendants, now; LabBroken if it has ended."""
    with _must_exist(pid):
        return tuple(account_program.tree(pid))


def usage_of_trees(trees: Mapping[Role, Sequence[int]]) -> dict[Role, Usage]:
    """The counters of several trees at one moment: first all CPU clocks, within microseconds, then the rest.

    LabBroken if a process has ended, because its share would be lost.
    """
    clocks = {pid: _clock_s(pid) for pids in trees.values() for pid in pids}
    return {role: together(_usage(pid, clocks[pid]) for pid in pids) for role, pids in trees.items()}


@contextmanager
def _must_exist(pid: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LabBroken(f"process {pid} cannot be accounted for", str(error), "check whether it has ended") from error


def _clock_s(pid: int) -> float:
    with _must_exist(pid):
        return clock_s(pid)


def _usage(pid: int, cpu_s: float) -> Usage:
    with _must_exist(pid):
        return of_texts(texts_of(pid), cpu_s)


def whole_s(pid: int) -> float:
    """CPU seconds of a process and all its descendants, ended ones included (those in steps of 10 ms).

    A machine of User-Mode Linux has a process for each of its programs, which come and go.
    """
    for _ in range(_LOOKS):
        try:
            return sum(_clock_s(process) + _ended_children_s(process) for process in tree(pid))
        except LabBroken:
            tree(pid)  # LabBroken if the process itself has ended; else a descendant has: read again
    raise LabBroken(f"process {pid} cannot be accounted for", "its child processes change all the time")


def _ended_children_s(pid: int) -> float:
    with _must_exist(pid):
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * TICK_S


@output_of("/proc/PID/stat")
def parse_usage(stat: str, io: str, *, cpu_s: float | None = None, units: KernelUnits = HERE) -> Usage:
    """Usage from the text of /proc/PID/stat and /proc/PID/io (proc_pid_stat(5), proc_pid_io(5)).

    cpu_s: a more exact total, to which user and system time are scaled.
    """
    fields = stat.rpartition(")")[2].split()
    user_s, system_s = int(fields[11]) * units.tick_s, int(fields[12]) * units.tick_s
    ticks_s = user_s + system_s
    whole = ticks_s if cpu_s is None else cpu_s
    scale = whole / ticks_s if ticks_s else 0.0
    counts = dict(line.split(": ") for line in io.splitlines())
    return Usage(
        cpu_s=whole,
        user_s=user_s * scale if scale else whole,
        system_s=system_s * scale,
        read_bytes=int(counts["read_bytes"]),
        write_bytes=int(counts["write_bytes"]) - int(counts["cancelled_write_bytes"]),
        resident_bytes=int(fields[21]) * units.page_bytes,
    )


def of_texts(texts: Mapping[str, Any], cpu_s: float, units: KernelUnits = HERE) -> Usage:
    """Usage from the output of `account_program.texts_of`, here or on a host. cpu_s: CPU clock of the process."""
    spent: dict[str, float] = defaultdict(float)
    switches = 0
    for stat, slept in texts["tasks"]:
        name, rest = stat.partition("(")[2].rsplit(")", 1)
        fields = rest.split()
        spent[thread_kind(name)] += (int(fields[11]) + int(fields[12])) * units.tick_s
        switches += slept
    whole = parse_usage(texts["stat"], texts["io"], cpu_s=cpu_s, units=units)
    return replace(whole, threads=dict(spent), switches=switches)


@output_of("/proc/stat")
def busy_of(line: str, units: KernelUnits = HERE) -> float:
    """CPU seconds for which the CPUs of a kernel were busy, from the first line of its /proc/stat (proc_stat(5))."""
    user, nice, system, _idle, _iowait, *rest = (int(word) for word in line.split()[1:])
    return (user + nice + system + sum(rest[:3])) * units.tick_s


def thread_kind(name: str) -> str:
    """`msgr-worker` for `msgr-worker-1`: threads that do the same work count together."""
    return _NUMBER.sub("", name) or name


@output_of("/proc/PID/net/dev")
def interface_counters(text: str, only: str = "") -> dict[str, int]:
    """Bytes and packets, received and sent, of /proc/PID/net/dev: all interfaces but loopback, or only `only`."""
    counted = dict.fromkeys(_COLUMNS, 0)
    for line in text.splitlines()[2:]:
        name, _, figures = line.partition(":")
        if name.strip() == "lo" or (only and name.strip() != only):
            continue
        values = figures.split()
        for key, column in _COLUMNS.items():
            counted[key] += int(values[column])
    return counted
