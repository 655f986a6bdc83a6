"""How much a daemon holds, memory above all: by its kernel, and by its own accounts."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon

_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_HELD = ("resident", "threads", "files")
_BLOCKS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)
_THREADS = re.compile(r"^Threads:\s+(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Footprint:
    """What a process holds by its kernel's word. resident: bytes; threads, files: how many it has, files open ones."""

    resident: int
    threads: int
    files: int


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
    """Memory of a running daemon; see `footprint`."""
    return MemoryUse(footprint(daemon).resident, pools_of(client.tell(daemon.name, "dump_mempools")))


def footprint(daemon: Daemon) -> Footprint:
    """Of a running daemon; an emulated program's is its emulator's. LabBroken where no kernel can be asked for it."""
    process = daemon.started()
    if process.pid:  # on this machine, whatever its host is; some are started by a shell, which stays
        try:
            started = psutil.Process(process.pid)
            family = [started, *started.children(recursive=True)]
            return Footprint(
                resident=sum(member.memory_info().rss for member in family),
                threads=sum(member.num_threads() for member in family),
                files=sum(member.num_fds() for member in family),
            )
        except psutil.Error as error:
            raise LabBroken(f"what {daemon.name} holds cannot be read", str(error)) from error
    pid = int(process.ref["pid"])
    said = daemon.host.run(["sh", "-c", f"ls /proc/{pid}/fd | wc -l; cat /proc/{pid}/status"]).stdout
    files, _, status = said.partition("\n")
    threads = _THREADS.search(status)
    return Footprint(resident_bytes(status), int(threads[1]) if threads else 0, int(files))


@dataclass(frozen=True)
class Held:
    """What a daemon held at one moment. process: which it was, so that one that began anew is not compared."""

    process: Mapping[str, Any]
    footprint: Footprint


def held_here(daemons: Iterable[Daemon]) -> dict[str, Held]:
    """Of each daemon that runs as a process of this machine: one elsewhere costs a program for each look."""
    holds = {}
    for daemon in daemons:
        if daemon.process is not None and daemon.process.pid:
            with suppress(LabBroken):  # it has ended
                holds[daemon.name] = Held(daemon.process.ref, footprint(daemon))
    return holds


@dataclass(frozen=True)
class ThreadTime:
    """wanted_s: seconds in which it ran or waited for a processor; blocks: how often it gave one up of its own."""

    wanted_s: float = 0.0
    blocks: int = 0


def threads_here(daemon: Daemon) -> dict[int, ThreadTime]:
    """Every thread of a daemon that runs on this machine, see proc_pid_status(5) and Linux' sched-stats.rst."""
    started = psutil.Process(daemon.started().pid)
    threads: dict[int, ThreadTime] = {}
    for member in (started, *started.children(recursive=True)):
        for folder in Path(f"/proc/{member.pid}/task").iterdir():
            with suppress(OSError):  # it has ended
                ran_ns, waited_ns, _ = (folder / "schedstat").read_text().split()
                blocks = _BLOCKS.search((folder / "status").read_text())
                wanted_s = (int(ran_ns) + int(waited_ns)) / 1e9
                threads[int(folder.name)] = ThreadTime(wanted_s, int(blocks[1]) if blocks else 0)
    return threads


def stored_here(client: RadosClient, daemons: Iterable[Daemon]) -> dict[str, int]:
    """Bytes on disks by daemon: of an OSD as the manager heard last, of others that run here the folder."""
    stored = {f"osd.{entry['id']}": int(entry["kb_used"]) << 10 for entry in client.mgr("osd df")["nodes"]}
    for daemon in daemons:
        if daemon.kind != "osd" and daemon.process is not None and daemon.process.pid:
            size = size_of(daemon, daemon.host.directory / daemon.name)
            stored |= {daemon.name: size} if size is not None else {}
    return stored


def size_of(daemon: Daemon, *paths: PurePosixPath) -> int | None:
    """Bytes of files and folders on a daemon's host; None where one is not there."""
    said = daemon.host.run(["du", "-sbc", *map(str, paths)], check=False)
    return int(said.stdout.split()[-2]) if said.code == 0 else None


def grown(before: Mapping[str, Held], now: Mapping[str, Held]) -> dict[str, dict[str, list[int]]]:
    """By daemon: resident bytes, threads and files at both moments. Only daemons that ran all the time."""
    pairs = {name: (before[name], held) for name, held in now.items() if name in before}
    return {
        name: {each: [getattr(was.footprint, each), getattr(held.footprint, each)] for each in _HELD}
        for name, (was, held) in sorted(pairs.items())
        if was.process == held.process
    }


def resident_bytes(status: str) -> int:
    """From /proc/PID/status, see proc(5); LabBroken if it is not there."""
    match = _RESIDENT.search(status)
    if match is None:
        raise LabBroken("the kernel does not say how much memory a process holds", status[:500])
    return int(match[1]) << 10


def pools_of(dump: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by pool, from `dump_mempools`."""
    return {name: int(pool["bytes"]) for name, pool in dump["mempool"]["by_pool"].items()}
