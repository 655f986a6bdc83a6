"""Measures what a daemon holds, memory above all: as its kernel reports it, and as Ceph accounts for it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from cephlab.lab.base.errors import CephTrouble, LabBroken, LabError
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.marks import TOKEN_VARIABLE

_HELD = ("resident", "threads", "files")
_BLOCKS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Footprint:
    """What a process holds according to its kernel. resident: bytes; files: number of open files."""

    resident: int
    threads: int
    files: int


@dataclass(frozen=True)
class MemoryUse:
    """Bytes. resident: pages that the kernel gave the process; pools: Ceph's own count of allocations, by mempool."""

    resident: int
    pools: Mapping[str, int]

    @property
    def accounted(self) -> int:
        return sum(self.pools.values())

    @property
    def beyond(self) -> int:
        """Program code, stacks, allocations that no pool counts, and memory that the allocator keeps."""
        return self.resident - self.accounted


def memory_use(client: RadosClient, daemon: Daemon) -> MemoryUse:
    """Memory of a running daemon; see `footprint`."""
    return MemoryUse(footprint(daemon).resident, pools_of(client.tell(daemon.name, "dump_mempools")))


def settled(client: RadosClient, osd: str) -> int:
    """Let an OSD give unused memory back to its kernel; bytes that it accounts for then, 0 if it does not answer.

    What it accounts for is mostly caches, which it fills up to osd_memory_target. Below that target its allocator keeps
    what it freed: after writes of 4 MiB, hundreds of them in flight, that is most of a GB.
    """
    with suppress(CephTrouble):  # one without tcmalloc
        client.command(osd, "heap", heapcmd="release")
    try:
        return sum(pools_of(client.tell(osd, "dump_mempools")).values())
    except CephTrouble:
        return 0


def footprint(daemon: Daemon) -> Footprint:
    """Footprint of a running daemon, with its emulator if it has one. LabBroken if no kernel can tell it."""
    process = daemon.started()
    if process.pid:
        return _footprint_here(daemon)
    footprints = _footprints_there(daemon.host, [daemon])
    if daemon.name not in footprints:
        raise LabBroken(f"the memory use of {daemon.name} cannot be read", f"it does not run on {daemon.host.name}")
    return footprints[daemon.name]


def _footprint_here(daemon: Daemon) -> Footprint:
    """Footprint of a process of this machine, whatever its host is. A shell that started it is counted too."""
    try:
        started = psutil.Process(daemon.started().pid)
        held, children = [_held(started)], started.children(recursive=True)
    except psutil.Error as error:
        raise LabBroken(f"the memory use of {daemon.name} cannot be read", str(error)) from error
    for child in children:
        with suppress(psutil.NoSuchProcess):  # a helper that has ended
            held.append(_held(child))
    resident = sum(part.resident for part in held)
    if not resident:
        raise LabBroken(f"the memory use of {daemon.name} cannot be read", "the process has ended")
    return Footprint(
        resident=resident, threads=sum(part.threads for part in held), files=sum(part.files for part in held)
    )


def _held(process: psutil.Process) -> Footprint:
    return Footprint(process.memory_info().rss, process.num_threads(), process.num_fds())


# For each argument, `pid:NUMBER` or `token:MARK`: prints a line with it, then what each of its processes holds.
_LOOK = r"""
for asked; do
  echo "$asked"
  case $asked in
    token:*) pids=$(grep -lszx -- "$TOKEN_NAME=${asked#token:}" /proc/[0-9]*/environ | cut -d/ -f3) ;;
    *) pids=${asked#pid:} ;;
  esac
  for pid in $pids; do
    grep -sE '^(VmRSS|Threads):' "/proc/$pid/status" && echo "Files: $(ls "/proc/$pid/fd" | wc -l)"
  done
done
"""
_FIELD = re.compile(r"(VmRSS|Threads|Files):\s+(\d+)")


def _footprints_there(host: Host, daemons: Iterable[Daemon]) -> dict[str, Footprint]:
    """Footprints of daemons on a host whose processes are not this machine's, by daemon, with one call."""
    names = {name_on_host(daemon.started().ref): daemon.name for daemon in daemons}
    output = host.run(["sh", "-c", _LOOK, "sh", *names], env={"TOKEN_NAME": TOKEN_VARIABLE}).stdout
    return {names[word]: size for word, size in parsed_footprints(output).items()}


def name_on_host(ref: Mapping[str, Any]) -> str:
    """`pid:NUMBER`, or `token:MARK` if its host does not know the pid; see `HostProcess.ref`."""
    return f"pid:{ref['pid']}" if ref["pid"] else f"token:{ref['token']}"


def parsed_footprints(output: str) -> dict[str, Footprint]:
    """Footprints by `pid:NUMBER` or `token:MARK`. Without a process that has memory, an entry is left out."""
    sums: dict[str, dict[str, int]] = {}
    name = ""
    for line in output.splitlines():
        if field := _FIELD.match(line):
            own = sums.setdefault(name, {"VmRSS": 0, "Threads": 0, "Files": 0})
            own[field[1]] += int(field[2])
        else:
            name = line
    return {
        word: Footprint(own["VmRSS"] << 10, own["Threads"], own["Files"]) for word, own in sums.items() if own["VmRSS"]
    }


@dataclass(frozen=True)
class Held:
    """What a daemon held at one moment. process: identifies it, so that a restarted daemon is not compared."""

    process: Mapping[str, Any]
    footprint: Footprint


def holdings(daemons: Iterable[Daemon]) -> dict[str, Held]:
    """What each running daemon holds, as far as it can be read. Other hosts cost one program each."""
    begun = [daemon for daemon in daemons if daemon.process is not None]
    footprints: dict[str, Footprint] = {}
    for daemon in begun:
        if daemon.started().pid:
            with suppress(LabBroken):  # it has ended
                footprints[daemon.name] = _footprint_here(daemon)
    for there in _by_host(daemon for daemon in begun if not daemon.started().pid):
        with suppress(LabError):  # its host went down, which other checks report
            footprints |= _footprints_there(there[0].host, there)
    return {
        daemon.name: Held(daemon.started().ref, footprints[daemon.name])
        for daemon in begun
        if daemon.name in footprints
    }


def _by_host(daemons: Iterable[Daemon]) -> Iterator[list[Daemon]]:
    """Daemons grouped by host, only for hosts that are up."""
    hosts: dict[str, list[Daemon]] = {}
    for daemon in daemons:
        hosts.setdefault(daemon.host.name, []).append(daemon)
    return (there for there in hosts.values() if there[0].host.up())


@dataclass(frozen=True)
class ThreadTime:
    """CPU use of a thread. wanted_s: seconds running or waiting for a CPU; blocks: voluntary context switches."""

    wanted_s: float = 0.0
    blocks: int = 0


def threads_here(daemon: Daemon) -> dict[int, ThreadTime]:
    """Every thread of a daemon that runs on this machine, see proc_pid_status(5) and Linux' sched-stats.rst."""
    started = psutil.Process(daemon.started().pid)
    threads: dict[int, ThreadTime] = {}
    for member in (started, *started.children(recursive=True)):
        with suppress(OSError):  # it has ended
            for folder in Path(f"/proc/{member.pid}/task").iterdir():
                with suppress(OSError):
                    threads[int(folder.name)] = _thread(folder)
    return threads


def _thread(folder: Path) -> ThreadTime:
    ran_ns, waited_ns, _ = (folder / "schedstat").read_text().split()
    blocks = _BLOCKS.search((folder / "status").read_text())
    return ThreadTime((int(ran_ns) + int(waited_ns)) / 1e9, int(blocks[1]) if blocks else 0)


def disk_use(client: RadosClient, daemons: Iterable[Daemon]) -> dict[str, int]:
    """Bytes on disks by daemon: for OSDs as last reported to the manager, else of the folder (one program per host)."""
    sizes = {f"osd.{entry['id']}": int(entry["kb_used"]) << 10 for entry in client.mgr("osd df")["nodes"]}
    for there in _by_host(daemon for daemon in daemons if daemon.kind != "osd" and daemon.process is not None):
        folders = {str(daemon.host.directory / daemon.name): daemon.name for daemon in there}
        with suppress(LabError):  # its host went down
            output = there[0].host.run(["du", "-sb", *folders], check=False).stdout
            rows = [line.partition("\t")[::2] for line in output.splitlines()]
            sizes |= {folders[folder]: int(size) for size, folder in rows if folder in folders}
    return sizes


def size_of(daemon: Daemon, *paths: PurePosixPath) -> int | None:
    """Total bytes of files and folders on a daemon's host; None if one is missing."""
    result = daemon.host.run(["du", "-sbc", *map(str, paths)], check=False)
    return int(result.stdout.split()[-2]) if result.code == 0 else None


def grown(before: Mapping[str, Held], now: Mapping[str, Held]) -> dict[str, dict[str, list[int]]]:
    """By daemon: resident bytes, threads and files at both moments. Only daemons that ran without a restart."""
    pairs = {name: (before[name], size) for name, size in now.items() if name in before}
    return {
        name: {part: [getattr(was.footprint, part), getattr(size.footprint, part)] for part in _HELD}
        for name, (was, size) in sorted(pairs.items())
        if was.process == size.process
    }


def pools_of(dump: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by pool, from `dump_mempools`."""
    return {name: int(pool["bytes"]) for name, pool in dump["mempool"]["by_pool"].items()}
