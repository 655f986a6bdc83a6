"""What kernels logged during a scenario: processes that they killed, faults, hung tasks, I/O errors, core dumps.

Everything from a guest's kernel counts, because the guest belongs to the lab. From this machine's kernel, which others
use too, only lines count that name a process or a disk of the run.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from cephlab.lab.base.errors import LabError
from cephlab.lab.base.process import find_marked
from cephlab.lab.base.runs import RUN_VARIABLE
from cephlab.lab.ceph import kernel_program
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.logs import Complaint
from cephlab.lab.providers.host import Host, has_own_kernel

HERE = "this machine"
LEVEL = "kernel"
CORE = "core"
_ANONYMOUS = "the names of core dumps do not show their process (kernel.core_uses_pid is 0)"
_PROGRAM = Path(kernel_program.__file__)
_LOOK_S = 120.0
_AT_ONCE = 4
_PIDS = (
    re.compile(r"[Oo]ut of memory: Killed process (\d+)"),  # mm/oom_kill.c, of a machine or of a cgroup
    re.compile(r"\[(\d+)\]: (?:segfault at|unhandled) "),  # arch/x86/mm/fault.c, arch/arm64/kernel/traps.c
    re.compile(r"^traps: .*\[(\d+)\] "),
    re.compile(r"INFO: task .*:(\d+) blocked for more than"),  # kernel/hung_task.c
)
_DEVICE = re.compile(r"(?:I/O error,? (?:on )?dev(?:ice)?|critical (?:medium|target) error, dev) ([\w!-]+)")  # block/


@dataclass(frozen=True)
class KernelLook:
    """A kernel at one moment. last: number of the last record of its log; lines: lines since the previous look.

    cores: (path, time) of every core dump; unread: sentences on what could not be read. own: ids of the run's
    processes and threads, and names of its disks, on a kernel that others use too; None if the kernel is only the
    run's.
    """

    boot: str = ""
    last: int = -1
    lines: tuple[str, ...] = ()
    cores: frozenset[tuple[str, int]] = frozenset()
    unread: tuple[str, ...] = ()
    own: frozenset[str] | None = None


Looks = Mapping[str, KernelLook]
"""Name of the host, or HERE -> look."""
NOTHING = KernelLook()


def look_at_kernels(
    run_id: str, hosts: Mapping[str, Host], daemons: Collection[Daemon], before: Looks
) -> dict[str, KernelLook]:
    """Look at the kernels of this machine and of every guest that is up. before: the previous looks."""
    guests = {name: host for name, host in hosts.items() if has_own_kernel(host) and host.up()}

    def look(name: str) -> KernelLook:
        there = [daemon.process.ref for daemon in daemons if daemon.process and daemon.host.name == name]
        pids = [int(ref["pid"]) for ref in there if "pid" in ref]
        return _look_into(guests[name], before.get(name, NOTHING), pids)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looks = {**before, **dict(zip(guests, pool.map(look, guests), strict=True))}
    if shared := [host for host in hosts.values() if not has_own_kernel(host)]:
        looks[HERE] = _look_here(run_id, shared, daemons, before.get(HERE, NOTHING))
    return looks


def _look_here(run_id: str, hosts: Iterable[Host], daemons: Iterable[Daemon], was: KernelLook) -> KernelLook:
    pids = {daemon.process.pid for daemon in daemons if daemon.process and daemon.process.pid}
    pids |= {marked.pid for marked in find_marked({RUN_VARIABLE: run_id})}
    own = frozenset((*_threads(pids), *_disks(hosts)))
    look = _parsed(kernel_program.look(was.boot, was.last, sorted(pids)), own | (was.own or frozenset()))
    anonymous = () if kernel_program.names_processes() else (_ANONYMOUS,)
    return replace(look, unread=(*look.unread, *anonymous))


def _look_into(host: Host, was: KernelLook, pids: list[int]) -> KernelLook:
    """Look at a guest's kernel with the program, under the guest's Python."""
    request = json.dumps({"boot": was.boot, "after": was.last, "pids": pids}).encode()
    try:
        answer = host.run(["python3", "-I", "-S", "-c", _PROGRAM.read_text()], stdin=request, timeout_s=_LOOK_S)
        return _parsed(json.loads(answer.stdout), None)
    except (LabError, ValueError) as error:
        why = error.what if isinstance(error, LabError) else str(error)
        return KernelLook(was.boot, was.last, cores=was.cores, unread=(f"the kernel log could not be read: {why}",))


def _parsed(raw: Mapping[str, Any], own: frozenset[str] | None) -> KernelLook:
    cores = frozenset((str(path), int(time)) for path, time in raw["cores"])
    return KernelLook(raw["boot"], raw["last"], tuple(raw["lines"]), cores, tuple(raw["unread"]), own)


def _threads(pids: Iterable[int]) -> Iterator[str]:
    """Ids of processes and of their threads: a kernel names the thread that it ended, not the process."""
    for pid in pids:
        yield str(pid)
        with suppress(psutil.Error):
            yield from (str(thread.id) for thread in psutil.Process(pid).threads())


def _disks(hosts: Iterable[Host]) -> Iterator[str]:
    """Names of the hosts' disks in this machine's kernel. A disk that is a file has no name there."""
    for host in hosts:
        for path in getattr(host, "disks", {}).values():
            if str(path).startswith("/dev/"):
                yield Path(str(path)).resolve().name


def said_since(before: Looks, now: Looks) -> Iterator[Complaint]:
    """What kernels logged between two looks, and the new core dumps."""
    for name, look in now.items():
        was = before.get(name)
        if was is None or was is look:
            continue
        for line in look.lines:
            if (names := _named(line)) and (look.own is None or names in look.own):
                yield Complaint(f"kernel.{name}", LEVEL, line)
        for path, _ in sorted(look.cores - was.cores):
            if look.own is None or look.own & set(re.findall(r"\d+", Path(path).name)):
                yield Complaint(f"kernel.{name}", CORE, path)


def unread(looks: Looks) -> list[str]:
    """What could not be read, in sentences."""
    return [f"{name}: {sentence}" for name, look in sorted(looks.items()) for sentence in look.unread]


def _named(line: str) -> str:
    """The process or device in a line that reports a problem; empty for any other line."""
    match = next(filter(None, (pattern.search(line) for pattern in (*_PIDS, _DEVICE))), None)
    return match[1] if match else ""
