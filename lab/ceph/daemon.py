"""A Ceph daemon on a host: how it is started, whether it should run, its crash records, and commands to it."""

import errno
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import DaemonDied, LabBroken, LabError
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient
from cephlab.lab.ceph.offline import TAIL_LINES, blamed, last_lines
from cephlab.lab.providers.host import Host, HostProcess, preloading, reaches

STOP_S = 30.0
"""How long a daemon may take to end after SIGTERM; multiplied by patience."""
_KILL_S = 60.0
"""How long one may take after SIGKILL: its kernel first ends the I/O that it waits for."""


class Wanted(StrEnum):
    """The state that the lab last asked of a daemon."""

    RUNNING = "running"
    STOPPED = "stopped"
    PAUSED = "paused"


@dataclass
class Daemon:
    """A daemon. name: as Ceph spells it (`osd.0`, `mon.n0`). argv: the command that starts it on its host."""

    name: str
    host: Host
    argv: tuple[str, ...]
    preload: tuple[PurePosixPath, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    wanted: Wanted = Wanted.STOPPED
    process: HostProcess | None = None
    disks: tuple[str, ...] = field(default=())

    @property
    def kind(self) -> str:
        return self.name.partition(".")[0]

    @property
    def id(self) -> str:
        return self.name.partition(".")[2]

    @property
    def log(self) -> PurePosixPath:
        return self.host.directory / "log" / f"{self.name}.log"

    @property
    def output(self) -> PurePosixPath:
        """The file with its standard output and standard error. Messages of a loader or emulator are here."""
        return self.host.directory / "log" / f"{self.name}.out"

    def start(self) -> None:
        """Start it. From now on it is expected to run."""
        if not self.alive():
            self.process = self.host.spawn(self.argv, log=self.output, env=preloading(self.preload, self.env))
            self.wanted = Wanted.RUNNING

    def stop(self, *, patience: float = 1.0) -> None:
        """Send SIGTERM and wait until it ends; LabBroken if it does not end. A paused daemon is resumed for this."""
        paused = self.wanted is Wanted.PAUSED
        self.wanted = Wanted.STOPPED
        process = self.started()
        process.signal(signal.SIGTERM)
        if paused:
            process.signal(signal.SIGCONT)
        if not process.wait(STOP_S * patience):
            raise LabBroken(f"{self.name} did not stop after SIGTERM", self.log_tail())

    def kill(self) -> None:
        """SIGKILL, as in a crash: nothing is flushed. LabBroken if it does not end."""
        self.wanted = Wanted.STOPPED
        process = self.started()
        process.signal(signal.SIGKILL)
        if not process.wait(_KILL_S):
            raise LabBroken(f"{self.name} did not end after SIGKILL", hint="look for I/O errors in the kernel's log")

    def require_killable(self) -> None:
        """Raises Unavailable if `kill` would be refused: a daemon of an existing cluster is another's."""

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections but does not answer."""
        self.wanted = Wanted.PAUSED
        self.started().signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.wanted = Wanted.RUNNING
        self.started().signal(signal.SIGCONT)

    def alive(self) -> bool:
        return self.process is not None and self.process.alive()

    def accounted(self) -> HostProcess | None:
        """The process whose costs count as the daemon's; None if it is unknown."""
        return self.process

    def check(self) -> None:
        """Raise DaemonDied, with its last log lines, if it should be running and is not; DiskFull if it had no room."""
        if self.wanted is Wanted.STOPPED or self.alive():
            return
        died = DaemonDied(
            self.name,
            self.host.name,
            " ".join(self.argv),
            self.log_tail(),
            "\n".join(self.crashes()),
            self.process.exit_code() if self.process is not None else None,
        )
        raise blamed(self.host, died, self.disks)

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log and of its output."""
        return "\n".join(line for path in (self.log, self.output) for line in last_lines(self.host, path, lines))

    def crashes(self) -> list[str]:
        """Its crash records, each as `ID: CAUSE`, see `crash_cause`."""
        return [
            f"{record['crash_id']}: {crash_cause(record)}"
            for record in crash_records(self.host)
            if record.get("entity_name") == self.name
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "node": self.host.name,
            "argv": list(self.argv),
            "preload": [str(path) for path in self.preload],
            "env": dict(self.env),
            "wanted": self.wanted.value,
            "process": self.process.ref if self.process is not None else None,
            "disks": list(self.disks),
        }

    def started(self) -> HostProcess:
        """Its process; LabBroken if it was never started."""
        if self.process is None:
            raise LabBroken(f"{self.name} was never started")
        return self.process


_LISTEN_S = 120.0


def start_monitors(
    monitors: Sequence[Daemon], start: Callable[[Daemon], object], looker: Host, *, patience: float = 1.0
) -> None:
    """Start monitors with `start`: the emulated ones first, and the others once the emulated ones listen.

    An election ends at once if every monitor takes part, else after its timeout, 5 s. A monitor that started 1.6 s
    after the others missed the first three elections (18.2.7). looker: the host that checks whether they listen.
    """
    slow = [monitor for monitor in monitors if monitor.host.emulated]
    quick = [monitor for monitor in monitors if not monitor.host.emulated]
    for monitor in slow:
        start(monitor)
    for monitor in slow if quick else ():
        listening = partial(_listening, monitor, looker)
        clock.wait(listening, bool, what=f"{monitor.name} listening", timeout_s=_LISTEN_S * patience)
    for monitor in quick:
        start(monitor)


def _listening(monitor: Daemon, looker: Host) -> bool:
    monitor.check()
    return reaches(looker, monitor.host.address, conf.MON_PORT)


def daemon_from_json(raw: dict[str, Any], host: Host) -> Daemon:
    """The daemon that `Daemon.to_json` described."""
    return Daemon(
        name=raw["name"],
        host=host,
        argv=tuple(raw["argv"]),
        preload=tuple(PurePosixPath(path) for path in raw["preload"]),
        env=raw["env"],
        wanted=Wanted(raw["wanted"]),
        process=host.find(raw["process"]) if raw["process"] else None,
        disks=tuple(raw["disks"]),
    )


def crash_records(host: Host) -> list[dict[str, Any]]:
    """The crash records of every daemon on a host (crash_dir/*/meta), each with its `crash_id`.

    A dying daemon writes its record itself. A broken record has only `crash_id` and `unreadable`, the reason.
    Managers also write records at each start about modules without NOTIFY_TYPES. These are left out: nothing died.
    """
    folder = str(host.directory / "crash")
    # Records are rare, and an emulated Python takes seconds to start.
    if not host.run(["find", folder, "-mindepth", "2", "-maxdepth", "2", "-name", "meta"], timeout_s=60).stdout:
        return []
    records = json.loads(host.run(["python3", "-c", _LIST_CRASHES, folder], timeout_s=60).stdout)
    return [record for record in records if not _only_module(record)]


def forget_emptied_crashes(host: Host) -> None:
    """Remove empty crash records, whose content had not reached the disk before a power cut."""
    argv = ["find", str(host.directory / "crash"), "-mindepth", "2", "-name", "meta", "-empty", "-delete"]
    host.run(argv, timeout_s=60)


def _only_module(record: Mapping[str, Any]) -> bool:
    """Whether a record is about a module without NOTIFY_TYPES (PyModule::load_subclass_of in Ceph's PyModule.cc)."""
    caller, error = record.get("mgr_module_caller"), record.get("mgr_python_exception")
    return caller == "PyModule::load_subclass_of" and error == "AttributeError" and not record.get("backtrace")


def crash_cause(record: Mapping[str, Any]) -> str:
    """The cause that a crash record gives, in one line: the assertion, else the top of the stack."""
    if "unreadable" in record:
        return f"the crash record is incomplete ({record['unreadable']})"
    stack = record.get("backtrace") or ["without a backtrace"]
    return str(record.get("assert_msg") or stack[0]).strip()


_LIST_CRASHES = """
import glob, json, os, sys
records = []
for path in sorted(glob.glob(sys.argv[1] + "/*/meta")):
    name = os.path.basename(os.path.dirname(path))
    try:
        with open(path, errors="replace") as file:
            records.append({"crash_id": name, **json.load(file)})
    except (OSError, TypeError, ValueError) as error:
        records.append({"crash_id": name, "unreadable": str(error)})
print(json.dumps(records))
"""


_SOCKET_S = 20.0

# The protocol of Ceph's admin socket (src/common/admin_socket.cc): send JSON and a zero byte, receive a length and the
# answer.
_ASK = """
import json, socket, struct, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
asked.sendall(json.dumps({"prefix": sys.argv[2]}).encode() + bytes(1))
stream = asked.makefile("rb")
length = struct.unpack(">I", stream.read(4))[0]
sys.stdout.write(stream.read(length).decode())
"""


def tell(client: RadosClient, daemons: Mapping[str, Daemon], name: str, prefix: str) -> Any:
    """The JSON answer of a daemon to one of its own commands.

    Before Octopus a daemon accepts most commands only through its admin socket. So a command that is refused with
    EINVAL is sent there, if the daemon is in `daemons`. If that fails too, CephCommandFailed has the first refusal.
    """
    try:
        return client.tell(name, prefix)
    except CephCommandFailed as error:
        if error.code != -errno.EINVAL or name not in daemons:
            raise
        host = daemons[name].host
        try:
            return ask_socket(host, conf.socket_path(host, name), prefix)
        except LabError:
            raise error from None


def ask_socket(host: Host, socket: PurePosixPath, command: str, *, patience: float = 1.0) -> Any:
    """The answer to a command sent through an admin socket on a host. It needs no quorum."""
    answer = host.run(["python3", "-c", _ASK, str(socket), command], timeout_s=_SOCKET_S * patience)
    try:
        return json.loads(answer.stdout)
    except json.JSONDecodeError as error:
        raise LabBroken(f"{socket} on {host.name} gave no answer to {command}", answer.stdout[:200]) from error


_STOPPED = frozenset("Tt")
"""State letters of proc(5) for a process that SIGSTOP or a debugger holds."""
_ENDED = frozenset("ZX")


def stopped(daemon: Daemon) -> bool:
    """Whether SIGSTOP holds every process of a daemon; False if it has no process."""
    threads = states(daemon)
    return bool(threads) and set(threads) <= _STOPPED


def states(daemon: Daemon) -> list[str]:
    """The state of each living process of a daemon, as letters of proc(5). There are several if a shell started it.

    Processes of this machine's kernel are found by their process group, to which signals go. Others are found on their
    host by the command line.
    """
    pid = daemon.process.pid if daemon.process is not None else 0
    if pid:
        return list(_group(pid))
    if len(daemon.argv) < 2:
        return []
    # The words go to standard input, because a program with these words as arguments would find itself.
    return daemon.host.run(["python3", "-c", _STATES], stdin=json.dumps(daemon.argv).encode()).stdout.split()


def _group(leader: int) -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = file.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if int(group) == leader and state not in _ENDED:
            yield state


_STATES = """
import glob, json, os, sys

program, *wanted = json.load(sys.stdin)
for folder in glob.glob("/proc/[0-9]*"):
    try:
        with open(folder + "/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\\0")[:-1]
        with open(folder + "/stat", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        continue  # it has just ended
    before, rest = words[: -len(wanted)], words[-len(wanted) :]
    if rest == wanted and before and os.path.basename(before[-1]) == os.path.basename(program):
        print(state)
"""
