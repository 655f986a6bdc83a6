"""How much a daemon holds, memory above all: by its kernel, and by its own accounts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.marks import TOKEN_VARIABLE

_HELD = ("resident", "threads", "files")
_BLOCKS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


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
    if process.pid:
        return _footprint_here(daemon)
    looked = _footprints_there(daemon.host, [daemon])
    if daemon.name not in looked:
        raise LabBroken(f"what {daemon.name} holds cannot be read", f"it does not run on {daemon.host.name}")
    return looked[daemon.name]


def _footprint_here(daemon: Daemon) -> Footprint:
    """Of a process of this machine, whatever its host is. Some are started by a shell, which stays."""
    try:
        started = psutil.Process(daemon.started().pid)
        held, children = [_held(started)], started.children(recursive=True)
    except psutil.Error as error:
        raise LabBroken(f"what {daemon.name} holds cannot be read", str(error)) from error
    for child in children:
        with suppress(psutil.NoSuchProcess):  # it was a helper, which has ended
            held.append(_held(child))
    resident = sum(each.resident for each in held)
    if not resident:
        raise LabBroken(f"what {daemon.name} holds cannot be read", "it has ended, and nobody has looked how")
    return Footprint(
        resident=resident, threads=sum(each.threads for each in held), files=sum(each.files for each in held)
    )


def _held(process: psutil.Process) -> Footprint:
    return Footprint(process.memory_info().rss, process.num_threads(), process.num_fds())


# For each argument, `pid:NUMBER` or `token:MARK`, a line with it, and after it what each of its processes holds.
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
    """By daemon, in one call, of those that run on a host whose processes are not this machine's."""
    asked = {name_on_host(daemon.started().ref): daemon.name for daemon in daemons}
    said = host.run(["sh", "-c", _LOOK, "sh", *asked], env={"TOKEN_NAME": TOKEN_VARIABLE}).stdout
    return {asked[word]: held for word, held in parsed_footprints(said).items()}


def name_on_host(ref: Mapping[str, Any]) -> str:
    """`pid:NUMBER`, or `token:MARK` where a process has no number that its host knows; see `HostProcess.ref`."""
    return f"pid:{ref['pid']}" if ref["pid"] else f"token:{ref['token']}"


def parsed_footprints(said: str) -> dict[str, Footprint]:
    """By `pid:NUMBER` or `token:MARK`; what has no process with memory has ended, and is left out."""
    sums: dict[str, dict[str, int]] = {}
    asked = ""
    for line in said.splitlines():
        if field := _FIELD.match(line):
            own = sums.setdefault(asked, {"VmRSS": 0, "Threads": 0, "Files": 0})
            own[field[1]] += int(field[2])
        else:
            asked = line
    return {
        word: Footprint(own["VmRSS"] << 10, own["Threads"], own["Files"]) for word, own in sums.items() if own["VmRSS"]
    }


@dataclass(frozen=True)
class Held:
    """What a daemon held at one moment. process: which it was, so that one that began anew is not compared."""

    process: Mapping[str, Any]
    footprint: Footprint


def holdings(daemons: Iterable[Daemon]) -> dict[str, Held]:
    """Of each daemon that runs and can be asked for. Those elsewhere cost one program for each host."""
    begun = [daemon for daemon in daemons if daemon.process is not None]
    found: dict[str, Footprint] = {}
    for daemon in begun:
        if daemon.started().pid:
            with suppress(LabBroken):  # it has ended
                found[daemon.name] = _footprint_here(daemon)
    for there in _by_host(daemon for daemon in begun if not daemon.started().pid):
        with suppress(LabError):  # its host went down, which is for other checks to tell
            found |= _footprints_there(there[0].host, there)
    return {daemon.name: Held(daemon.started().ref, found[daemon.name]) for daemon in begun if daemon.name in found}


def _by_host(daemons: Iterable[Daemon]) -> Iterator[list[Daemon]]:
    """Only of hosts that are up."""
    hosts: dict[str, list[Daemon]] = {}
    for daemon in daemons:
        hosts.setdefault(daemon.host.name, []).append(daemon)
    return (there for there in hosts.values() if there[0].host.up())


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
    """Bytes on disks by daemon: an OSD's as the manager heard last, of others the folder, a program for each host."""
    sizes = {f"osd.{entry['id']}": int(entry["kb_used"]) << 10 for entry in client.mgr("osd df")["nodes"]}
    for there in _by_host(daemon for daemon in daemons if daemon.kind != "osd" and daemon.process is not None):
        folders = {str(daemon.host.directory / daemon.name): daemon.name for daemon in there}
        with suppress(LabError):  # its host went down
            said = there[0].host.run(["du", "-sb", *folders], check=False).stdout
            told = [line.partition("\t")[::2] for line in said.splitlines()]
            sizes |= {folders[folder]: int(size) for size, folder in told if folder in folders}
    return sizes


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


def pools_of(dump: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by pool, from `dump_mempools`."""
    return {name: int(pool["bytes"]) for name, pool in dump["mempool"]["by_pool"].items()}
