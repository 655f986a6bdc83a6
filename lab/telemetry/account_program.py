"""Reads what processes have used, from the kernel that runs them: a line of JSON in, a line of JSON out.

It runs on hosts (Python 3.9 and later), so it imports nothing from the lab. The lab imports it to read processes of
this machine in the same way.
"""

import fcntl
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROC = Path("/proc")
_SCHEDULED = 2  # CPUCLOCK_SCHED in the kernel's include/linux/posix-timers.h
_ADDRESS_OF = 0x8915  # SIOCGIFADDR, netdevice(7)


def clock_s(pid: int) -> float:
    """CPU seconds of a process and all its threads, ended ones included, to the nanosecond (/proc/PID/stat: to 10 ms).

    The clock of clock_getcpuclockid(3), numbered as in include/linux/posix-timers.h, make_process_cpuclock.
    """
    return time.clock_gettime_ns((~pid << 3) | _SCHEDULED) / 1e9


def texts_of(pid: int) -> dict[str, Any]:
    """`stat` and `io` of a process; for each thread its `stat` and its number of voluntary context switches."""
    base = PROC / str(pid)
    tasks = []
    for entry in os.scandir(base / "task"):
        try:
            stat, status = Path(entry.path, "stat").read_text(), Path(entry.path, "status").read_text()
        except OSError:
            continue  # a thread may end after it was listed
        tasks.append([stat, int(status.rpartition("\nvoluntary_ctxt_switches:")[2].split()[0])])
    return {"stat": (base / "stat").read_text(), "io": (base / "io").read_text(), "tasks": tasks}


def tree(pid: int) -> list[int]:
    """A process and all its descendants, now; OSError if it has ended."""
    (PROC / str(pid) / "stat").read_text()
    children: dict[int, list[int]] = {}
    for child in _pids(PROC):
        try:
            parent = (PROC / str(child) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(child)
    members = [pid]
    for member in members:
        members += children.get(member, [])
    return members


def holding(name: str, wanted: bytes) -> list[int]:
    """Processes with exactly this entry in their `environ` or `cmdline`."""
    return [pid for pid, entries in _entries(name, PROC) if wanted in entries and pid != os.getpid()]


def running(programs: list[str], proc: Path = PROC) -> list[int]:
    """Processes whose command line names one of these programs: directly, or after the loader that starts it."""
    wanted = [program.encode() for program in programs]
    return [
        pid for pid, words in _entries("cmdline", proc) if any(word.rpartition(b"/")[2] in wanted for word in words)
    ]


def _entries(name: str, proc: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The entries of each process in its `environ` or `cmdline`."""
    for pid in _pids(proc):
        try:
            yield pid, (proc / str(pid) / name).read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or belongs to another user


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def networks_of(pids: list[int]) -> dict[str, str]:
    """Network namespace of these processes -> counters of the interfaces in it."""
    networks: dict[str, str] = {}
    for pid in pids:
        networks.setdefault(namespace_of(pid), (PROC / str(pid) / "net/dev").read_text())
    return networks


def namespace_of(pid: int | str) -> str:
    """The network namespace of a process."""
    return os.readlink(PROC / str(pid) / "ns/net")  # noqa: PTH115 - the target of the link is not a path


def interface_of(address: str) -> str:
    """The interface that has an IPv4 address; empty if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(link.fileno(), _ADDRESS_OF, struct.pack("256s", name.encode()))
            except OSError:
                continue  # it has no IPv4 address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""


def read(request: dict[str, Any]) -> dict[str, Any]:
    """All counters of some processes at one moment: first all CPU clocks, within microseconds, then the rest."""
    began = time.monotonic()
    pids = request["pids"]
    at_s = time.time()
    clocks = {str(pid): clock_s(pid) for pid in pids}
    busy = (PROC / "stat").read_text().partition("\n")[0]
    networks = networks_of(pids) if request["address"] else {}
    return {
        "at_s": at_s,
        "clocks": clocks,
        "busy": busy,
        "texts": {str(pid): texts_of(pid) for pid in pids},
        "networks": {
            space: [text, [pid for pid in pids if namespace_of(pid) == space]] for space, text in networks.items()
        },
        "interface": interface_of(request["address"]) if networks else "",
        "boot": (PROC / "sys/kernel/random/boot_id").read_text().strip(),
        "ticks_s": os.sysconf("SC_CLK_TCK"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "took_s": time.monotonic() - began,
    }


def threads(request: dict[str, Any], proc: Path = PROC) -> dict[str, Any]:
    """CPU seconds of each thread of some programs, by `PID/TID name`, and of everything, at one moment; CPUs there."""
    tick_s, spent = 1 / os.sysconf("SC_CLK_TCK"), {}
    at_s, busy = time.monotonic(), (proc / "stat").read_text().partition("\n")[0]
    for pid in running(request["programs"], proc):
        for entry in (proc / str(pid) / "task").glob("*/stat"):
            try:
                head, _, rest = entry.read_text(errors="replace").rpartition(")")
            except OSError:
                continue  # a thread may end after it was listed
            fields = rest.split()
            name = head.partition("(")[2]
            spent[f"{pid}/{entry.parent.name} {name}"] = (int(fields[11]) + int(fields[12])) * tick_s
    return {
        "at_s": at_s,
        "threads": spent,
        "busy": busy,
        "ticks_s": os.sysconf("SC_CLK_TCK"),
        "cpus": len(os.sched_getaffinity(0)),
    }


def scheduled(request: dict[str, Any], proc: Path = PROC) -> dict[str, Any]:
    """CPU seconds of each thread of a process, to the nanosecond, as `TID: [name, seconds]`.

    From schedstat: see the kernel's Documentation/scheduler/sched-stats.rst. OSError if the process has ended.
    """
    spent = {}
    for task in (proc / str(request["pid"]) / "task").iterdir():
        try:
            name, times = (task / "comm").read_text().strip(), (task / "schedstat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread may end after it was listed
        spent[task.name] = [name, int(times.partition(" ")[0]) / 1e9]
    return spent


def find(request: dict[str, Any]) -> list[int]:
    """Pids of a process and its descendants, found by its pid or by a mark in their environment."""
    if "pid" in request:
        return tree(request["pid"])
    return holding("environ", request["mark"].encode())


def adopt(request: dict[str, Any]) -> None:
    """Count processes that run a script on this host as part of this program from now on."""
    ADOPTED.update(holding("cmdline", request["script"].encode()))


def ask_socket(request: dict[str, Any]) -> Any:
    """Ceph's own counters from its admin socket: send JSON and a zero byte, receive a length and the answer."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(request["socket"])
        link.sendall(b'{"prefix": "perf dump"}' + bytes(1))
        with link.makefile("rb") as stream:
            length = struct.unpack(">I", stream.read(4))[0]
            return json.loads(stream.read(length))


ANSWERS = {
    "read": read,
    "find": find,
    "adopt": adopt,
    "socket": ask_socket,
    "threads": threads,
    "scheduled": scheduled,
}
ADOPTED: set[int] = set()


def own_s() -> float:
    """CPU seconds so far of this program, of the Python agent that relays its lines, and of adopted programs."""
    total_s = time.process_time()
    parent = os.getppid()
    for pid in {parent, *ADOPTED} - {0}:
        try:
            if pid != parent or (PROC / str(pid) / "comm").read_text().startswith("python"):
                total_s += clock_s(pid)
        except OSError:
            continue  # it is not visible, or has ended
    return total_s


def main() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": ANSWERS[request.pop("do")](request)}
        except (OSError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({**answer, "own_s": own_s()}), flush=True)


if __name__ == "__main__":
    main()
