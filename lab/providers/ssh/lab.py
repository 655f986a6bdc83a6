"""The machines of an inventory that one run uses, as its nodes."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import filelock

from cephlab.lab.base.errors import CleanUp, CommandTimedOut, LabError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, Run, remove_tree, write_json
from cephlab.lab.providers.base import LabNodes
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.ssh.connection import ConnectionLost, SshConnection, left_folders
from cephlab.lab.providers.ssh.host import SWEEP, SshHost
from cephlab.lab.spec.clusterspec import Node
from cephlab.lab.spec.inventory import Machine, machine_from_json, machine_to_json

_RECORD = "ssh.json"


class SshLab(LabNodes[SshHost]):
    """Nodes on machines. In one home, each machine serves one node of one run at a time.

    The run's directory names its machines before they are changed, so that a later `prune` knows where to look.
    """

    def __init__(self, run: Run, machines: Sequence[Machine]) -> None:
        super().__init__()
        self.run = run
        self._machines = tuple(machines)
        self._closed = False

    @property
    def state(self) -> dict[str, Any]:
        return {
            "machines": [machine_to_json(machine) for machine in self._machines],
            "nodes": {
                name: {"machine": machine_to_json(host.machine), "disks": sorted(host.disks)}
                for name, host in self._hosts.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, known in state["nodes"].items():
            self._open(name, machine_from_json(known["machine"]), known["disks"])

    def add_node(self, node: Node) -> SshHost:
        host = self._begin(node.name, self._claim(node))
        for disk in node.disks:
            host.make_disk(disk.name, disk.size_bytes)
        return host

    def add_machine(self, machine: Machine) -> SshHost:
        """A node on the given machine, under the machine's own name."""
        with self._claiming():
            self._record(machine.name, machine, self._taken())
        return self._begin(machine.name, machine)

    def _begin(self, name: str, machine: Machine) -> SshHost:
        host = self._open(name, machine, [])
        try:
            host.connection.ensure()
        except BaseException:
            self._drop(host)
            raise
        try:
            host.begin()
        except (CommandTimedOut, ConnectionLost):
            raise  # what is left there is not known, so it is removed at the end
        except LabError:
            self._drop(host)
            raise
        host.check()
        return host

    def _drop(self, host: SshHost) -> None:
        """Forget a machine on which nothing was left, so that nothing is removed there at the end."""
        host.connection.close()
        del self._hosts[host.name]

    def _claim(self, node: Node) -> Machine:
        """The free machine with the node's name, else the next free machine of its architecture."""
        self.refuse(node)
        with self._claiming():
            taken = self._taken()
            free = [machine for machine in self._machines if machine.name not in taken]
            fitting = [machine for machine in free if machine.arch is node.arch]
            if not fitting:
                known = ", ".join(machine.name for machine in self._machines if machine.arch is node.arch) or "none"
                raise Unavailable(
                    f"no machine is free for {node.name}",
                    f"the inventory's {node.arch} machines: {known}; in use by runs: {sorted(taken)}",
                    "add a machine to the inventory, or remove a run: `cephlab ls`, `cephlab down`",
                )
            machine = next((machine for machine in fitting if machine.name == node.name), fitting[0])
            self._record(node.name, machine, taken)
        return machine

    def _claiming(self) -> filelock.BaseFileLock:
        return filelock.FileLock(self.run.directory.parent / ".machines.lock")

    def _taken(self) -> set[str]:
        """Names of machines that runs of this home use."""
        folders = [entry for entry in self.run.directory.parent.iterdir() if entry.is_dir()]
        return {machine.name for folder in folders for machine in recorded(folder).values()}

    def _record(self, name: str, machine: Machine, taken: set[str]) -> None:
        if machine.name in taken:
            raise Unavailable(f"{machine.name} serves another run", "", "wait until it ends; `cephlab ls` lists it")
        known = {**recorded(self.run.directory), name: machine}
        write_json(self.run.directory / _RECORD, {key: machine_to_json(other) for key, other in known.items()})

    def _open(self, name: str, machine: Machine, disks: Sequence[str]) -> SshHost:
        home = self.run.home
        connection = SshConnection(machine, marks(home, self.run.id), folder_prefix(home, self.run.id))
        off = self._off_file(name)
        host = SshHost(
            name,
            connection,
            above=PurePosixPath(machine.directory) / folder_name(home, self.run.id),
            mark=mark(home, self.run.id, name),
            running=lambda: not self._closed and not off.exists(),
            disks=disks,
        )
        self._hosts[name] = host
        return host

    def _off_file(self, name: str) -> Path:
        return self.run.directory / f"{name}.off"

    def kill_node(self, name: str) -> None:
        """Kill everything that this run started there. The machine itself is not switched off."""
        host = self.host(name)
        self._off_file(name).touch()
        host.end_processes()

    def start_node(self, name: str) -> Host:
        host = self.host(name)
        host.begin(again=True)
        self._off_file(name).unlink(missing_ok=True)
        host.check()
        return host

    def move_disk(self, disk: str, target: str) -> None:
        raise Unavailable(
            f"disk {disk!r} cannot be moved to {target}", "it belongs to a real machine", "choose another --lab"
        )

    def hang_up(self) -> None:
        """Close the connections, without changing anything there."""
        for host in self._hosts.values():
            host.hang_up()
            host.connection.close()

    def close(self) -> None:
        clean_up = CleanUp()
        for host in self._hosts.values():
            with clean_up.step(f"{host.name} on {host.machine.name}"):
                host.remove_all()
        self.hang_up()
        self._closed = True
        clean_up.end()
        (self.run.directory / _RECORD).unlink(missing_ok=True)
        for off in self.run.directory.glob("*.off"):
            off.unlink()


def recorded(directory: Path) -> dict[str, Machine]:
    """Node -> machine, as recorded in a run's directory."""
    try:
        raw = json.loads((directory / _RECORD).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: machine_from_json(machine) for name, machine in raw.items()}


def sweep(home: Home, run_id: str, machines: Iterable[Machine]) -> list[str]:
    """Remove what a run has on machines, and the folders of its connections here. Returns what was removed, in words.

    Continues after a machine that fails, and raises CleanupFailed at the end.
    """
    removed: list[str] = []
    clean_up = CleanUp()
    for machine in machines:
        connection = SshConnection(machine, marks(home, run_id), folder_prefix(home, run_id))
        folder = PurePosixPath(machine.directory) / folder_name(home, run_id)
        with closing(connection), clean_up.step(machine.name):
            things = connection.python(SWEEP, mark(home, run_id, "*"), str(folder), "")
            removed += [f"{machine.name}: {thing}" for thing in things]
    for left in left_folders(folder_prefix(home, run_id)):
        stuck = remove_tree(left)
        clean_up.errors += stuck
        removed += [] if stuck else [str(left)]
    clean_up.end()
    return removed


def _key(home: Home, run_id: str) -> str:
    """Identifies a run. Contains the home: two homes may use one run name on the same machines."""
    return hashlib.sha256(f"{home.path}\n{run_id}".encode()).hexdigest()[:12]


def folder_name(home: Home, run_id: str) -> str:
    """A run's folder on a machine."""
    return f"cephlab-{_key(home, run_id)}"


def folder_prefix(home: Home, run_id: str) -> str:
    """Prefix of the temporary folders of a run's connections."""
    return f"cephlab-{os.getuid()}-ssh-{_key(home, run_id)}-"


def mark(home: Home, run_id: str, node: str) -> str:
    """Mark in the environment of every process of a node on its machine."""
    return f"{_key(home, run_id)}/{node}"


def marks(home: Home, run_id: str) -> dict[str, str]:
    """Marks in the environment of every ssh process of a run on this machine."""
    return {RUN_VARIABLE: run_id, HOME_MARK: str(home.path)}
