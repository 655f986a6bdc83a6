"""The guests of one run: raised, killed, disks moved between them, removed."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import CleanupFailed, LabBroken, LabError, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, remove_tree, write_json
from cephlab.lab.providers.agent.host import Way
from cephlab.lab.providers.agent.wire import PORT, READY
from cephlab.lab.providers.guest import boot, network
from cephlab.lab.providers.guest.host import Endpoint, GuestHost
from cephlab.lab.providers.guest.machine import FIRST_DISK, Boot, Interface, Machines, Make, Parts, Running
from cephlab.lab.providers.guest.network import Network
from cephlab.lab.providers.guest.removal import marks, remove_run
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, Disk, Node

DEFAULT_MEMORY_BYTES = 2 * GIB
"""A guest's memory where the spec says nothing; what it does not touch is not taken from this machine."""

_BOOT_S = 60.0
_ANSWER_S = 20.0
_DOWN_S = 10.0
_RECORD = "process.json"
_AT_ONCE = 2


@dataclass
class Guest:
    """One node. index: its place on the network; slots: where its disks are."""

    node: Node
    index: int
    host: GuestHost
    folder: Path
    process: process.LocalProcess | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def slots(self) -> dict[str, int]:
        return self.host.disks

    def running(self) -> bool:
        return self.process is not None and self.process.alive()


class GuestLab:
    """Guests on a network of the run's own; the disks are files that no two guests have at a time."""

    def __init__(
        self, run: Run, machines: Mapping[Arch, Machines], parts: Mapping[Make, Parts], subnet: str, patience: float
    ) -> None:
        self._run = run
        self._machines = dict(machines)
        self._parts = dict(parts)
        self._patience = patience
        self._marks = marks(run.home, run.id)
        self._network = Network(run.directory / "network", subnet, self._marks)
        self._guests: dict[str, Guest] = {}

    @property
    def hosts(self) -> Mapping[str, Host]:
        return {name: guest.host for name, guest in self._guests.items()}

    @property
    def network(self) -> Network:
        return self._network

    @property
    def state(self) -> dict[str, Any]:
        return {
            "subnet": str(self._network.subnet),
            "patience": self._patience,
            "parts": {str(make): parts.to_json() for make, parts in self._parts.items()},
            "nodes": {name: _guest_state(guest) for name, guest in self._guests.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the nodes from `state`; they exist already."""
        for name, known in state["nodes"].items():
            disks = tuple(Disk(disk, size_bytes=1) for disk in known["slots"])
            given = {key: known[key] for key in ("cores", "memory_bytes", "page_bytes") if key in known}
            node = Node(name, Arch(known["arch"]), disks, **given)
            guest = self._open(node, int(known["index"]), str(known["address"]))
            guest.slots.update(known["slots"])
            record = guest.folder / _RECORD
            if record.exists():
                guest.process = process.recall(json.loads(record.read_text()))

    def begin(self) -> None:
        """Make the network."""
        self._network.make()

    def add_node(self, node: Node) -> Host:
        return self.add_nodes([node])[0]

    def add_nodes(self, wanted: Sequence[Node]) -> list[GuestHost]:
        """Raise several machines, with their disks."""
        for node in wanted:
            self._refuse(node)
        made = []
        for node in wanted:
            index = self._free_index()
            made.append(self._open(node, index, network.address_of(self._network.subnet, index)))
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(self._raise_new, made))
        return [guest.host for guest in made]

    def add_node_at(self, node: Node, address: str) -> Host:
        self._refuse(node)
        if any(guest.host.address == address and guest.running() for guest in self._guests.values()):
            raise SpecError(f"{node.name} cannot have {address}", "a machine that is on has it", "switch that one off")
        guest = self._open(node, self._free_index(), address)
        self._raise_new(guest)
        return guest.host

    def _free_index(self) -> int:
        return max((guest.index for guest in self._guests.values()), default=-1) + 1

    def _refuse(self, node: Node) -> None:
        if node.name in self._guests:
            raise SpecError(f"there is a node {node.name!r} already", hint="choose another name")
        if Make(node.arch) not in self._parts:
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(map(str, self._parts))}")
        if _make(node) not in self._parts:
            had = ", ".join(str(make.page_bytes) for make in self._parts if make.arch is node.arch and make.page_bytes)
            raise SpecError(
                f"{node.name} asks for pages of {node.page_bytes} bytes, which this lab was not raised with",
                f"it has kernels for {had or 'no size that was asked for'}",
                "give a node of the spec that size from the start",
            )
        most = self._machines[node.arch].slots - FIRST_DISK
        if len(node.disks) > most:
            raise SpecError(f"{node.name} has {len(node.disks)} disks", f"a guest here takes {most}", "use more nodes")

    def _open(self, node: Node, index: int, address: str) -> Guest:
        folder = self._run.directory / "guests" / node.name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        control = network.control_address(index)
        host = GuestHost(
            node.name,
            node.arch,
            address,
            emulated=self._machines[node.arch].emulated(node.arch),
            way=Way(partial(self._network.connect, control, PORT), partial(self._running, node.name), self._patience),
            endpoint=Endpoint(self._network.folder, control),
        )
        host.distortion = self._machines[node.arch].distortion
        guest = Guest(node, index, host, folder)
        self._guests[node.name] = guest
        return guest

    def _running(self, name: str) -> bool:
        return self._guests[name].running()

    def _raise_new(self, guest: Guest) -> None:
        for slot, disk in enumerate(guest.node.disks, FIRST_DISK):
            path = self._disk_file(disk.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.truncate(disk.size_bytes)
            guest.slots[disk.name] = slot
        boot.make_store(guest.folder / "store.ext4")
        self._network.add_guest(guest.index)
        self._boot(guest)

    def _disk_file(self, name: str) -> Path:
        return self._run.directory / "disks" / name

    def _boot(self, guest: Guest) -> None:
        """Start the machine and wait for its agent."""
        order = self._order(guest)
        order.console.unlink(missing_ok=True)
        guest.process = self._of(guest).start(order)
        write_json(guest.folder / _RECORD, guest.process.ref)
        clock.wait(
            lambda: self._said_ready(guest, order.console),
            bool,
            what=f"{guest.node.name}'s agent",
            timeout_s=_BOOT_S * self._patience,
            interval_s=0.02,
            timed_out=lambda what, seconds, _last: LabBroken(
                f"{what} did not come up within {seconds:g} s", boot.why_not_ready(order.console)
            ),
        )
        guest.host.hang_up()
        self._meet(guest)

    def _order(self, guest: Guest) -> Boot:
        parts, machines = self._parts[_make(guest.node)], self._of(guest)
        lab, control = network.interfaces(guest.index)
        addresses = guest.host.address, network.control_address(guest.index)
        fixed = ((parts.root, False), (guest.folder / "store.ext4", True), (parts.kernel.modules, False))
        names = dict(zip(("root", "store", "modules"), machines.fixed_names(), strict=True))
        links = dict(zip(("lab_link", "control_link"), machines.interface_names(), strict=True))
        return Boot(
            name=guest.node.name,
            arch=guest.node.arch,
            folder=guest.folder,
            executable=parts.kernel.executable,
            initramfs=parts.initramfs,
            fixed=fixed,
            disks={slot: self._disk_file(name) for name, slot in guest.slots.items()},
            interfaces=[
                Interface(tap, network.mac(address)) for tap, address in zip((lab, control), addresses, strict=True)
            ],
            memory_bytes=guest.node.memory_bytes or DEFAULT_MEMORY_BYTES,
            cores=machines.cores(guest.node.cores),
            words={
                **names,
                **links,
                "name_of_host": guest.node.name,
                "address": f"{guest.host.address}/{self._network.subnet.prefixlen}",
                "control": network.control_address(guest.index),
                "keeper": network.KEEPER_ADDRESS,
            },
            console=guest.folder / "console.log",
            inside=self._network.inside(guest.folder),
            marks=self._marks,
        )

    @staticmethod
    def _said_ready(guest: Guest, console: Path) -> bool:
        if not guest.running():
            raise LabBroken(f"{guest.node.name} ended while it was starting", boot.why_not_ready(console))
        return console.exists() and READY in console.read_bytes()

    def _meet(self, guest: Guest) -> None:
        """Set the guest's clock and tell it where its disks are."""
        told = clock.wait(
            lambda: self._answer(guest),
            bool,
            what=f"an answer of {guest.node.name}'s agent",
            timeout_s=_ANSWER_S * self._patience,
            timed_out=lambda what, seconds, _last: LabBroken(f"{what} did not come within {seconds:g} s"),
        )
        self._require_pages(guest, told)
        self._tell_disks(guest)

    @staticmethod
    def _require_pages(guest: Guest, told: Mapping[str, Any]) -> None:
        got, wanted = told["page_bytes"], guest.node.page_bytes
        if wanted not in (None, got):
            raise LabBroken(f"{guest.node.name} has pages of {got} bytes", f"wanted: {wanted}")

    @staticmethod
    def _answer(guest: Guest) -> dict[str, Any]:
        """Who the guest says that it is; nothing while it does not answer yet."""
        try:
            return guest.host.greet()
        except LabBroken:
            if not guest.running():
                raise
            return {}

    def _tell_disks(self, guest: Guest) -> None:
        guest.host.ask("disks", disks={name: self._of(guest).place(slot) for name, slot in guest.slots.items()})

    def guest(self, name: str) -> Guest:
        """A node by name; SpecError where there is none."""
        if name not in self._guests:
            raise SpecError(f"there is no node {name!r}", f"nodes: {', '.join(self._guests)}")
        return self._guests[name]

    def machine_pid(self, node: str) -> int:
        """LabBroken where the machine is switched off."""
        guest = self.guest(node)
        if guest.process is None or not guest.running():
            raise LabBroken(f"{node} is down", hint="start the node")
        return guest.process.pid

    def kill_node(self, name: str) -> None:
        """The power is cut: what the guest had not written to its disks is gone."""
        guest = self.guest(name)
        with guest.lock:
            if guest.process is None:
                return
            guest.process.signal(signal.SIGKILL)
            if not guest.process.wait(_DOWN_S):
                raise LabBroken(f"{name} does not die", f"process {guest.process.pid}")
        guest.host.let_go()

    def start_node(self, name: str) -> Host:
        guest = self.guest(name)
        if not guest.running():
            self._boot(guest)
        return guest.host

    def move_disk(self, disk: str, target: str) -> None:
        sources = [guest for guest in self._guests.values() if disk in guest.slots]
        if not sources:
            raise LabBroken(f"no node has a disk {disk!r}")
        source, goal = sources[0], self.guest(target)
        free = [slot for slot in range(FIRST_DISK, self._of(goal).slots) if slot not in goal.slots.values()]
        if not free:
            raise SpecError(f"{target} has no room for another disk", f"it has {len(goal.slots)}")
        slot = source.slots[disk]
        if source.running():
            self._of(source).unplug(self._live(source), slot)
            source.host.ask("absent", place=self._of(source).place(slot))
        del source.slots[disk]
        goal.slots[disk] = free[0]
        if goal.running():
            self._of(goal).plug(self._live(goal), free[0], self._disk_file(disk))
            self._tell_disks(goal)
        if source.running():
            self._tell_disks(source)

    def _of(self, guest: Guest) -> Machines:
        return self._machines[guest.node.arch]

    def _live(self, guest: Guest) -> Running:
        return Running(guest.folder, self._network.inside(guest.folder))

    def disconnect(self, name: str) -> None:
        """Take a node off the network; its processes go on, and the lab still reaches it."""
        self._network.attach(self.guest(name).index, attached=False)

    def connect(self, name: str) -> None:
        """Put a disconnected node back on the network."""
        self._network.attach(self.guest(name).index, attached=True)

    def hang_up(self) -> None:
        """Close every connection that is kept."""
        for guest in self._guests.values():
            guest.host.hang_up()

    def close(self) -> None:
        self.hang_up()
        errors = []
        try:
            remove_run(self._run.home, self._run.id)
        except LabError as error:
            errors.append(str(error))
        for name in ("guests", "disks", "network"):
            errors += remove_tree(self._run.directory / name)
        if errors:
            raise CleanupFailed(errors)


def subnets_taken(home: Home) -> list[str]:
    """Subnets that runs of this home have claimed."""
    return [path.name.removeprefix("guests-").replace("_", "/") for path in home.runs.glob("*/guests-*_*")]


def claim_subnet(run: Run) -> str:
    """A subnet for a run, claimed by a file; call it under a lock."""
    subnet = network.free_subnet(subnets_taken(run.home))
    (run.directory / f"guests-{subnet.replace('/', '_')}").touch()
    return subnet


def _make(node: Node) -> Make:
    return Make(node.arch, node.page_bytes)


def _guest_state(guest: Guest) -> dict[str, Any]:
    return {
        "arch": guest.node.arch.value,
        "address": guest.host.address,
        "index": guest.index,
        "cores": guest.node.cores,
        "memory_bytes": guest.node.memory_bytes,
        "page_bytes": guest.node.page_bytes,
        "slots": dict(guest.slots),
    }
