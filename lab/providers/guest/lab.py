"""The guests of one run: raises, kills and removes them, and moves disks between them."""

import json
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, Run, RunId, run_ids, write_json
from cephlab.lab.providers.agent.host import AgentAccess
from cephlab.lab.providers.agent.wire import PORT, READY
from cephlab.lab.providers.base import LabNodes, remove_with_folders
from cephlab.lab.providers.guest import boot, network
from cephlab.lab.providers.guest.host import Endpoint, GuestHost
from cephlab.lab.providers.guest.machine import (
    FIRST_DISK,
    Boot,
    Hypervisor,
    Interface,
    Kinds,
    Make,
    Parts,
    RunningGuest,
)
from cephlab.lab.providers.guest.network import Network
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.marks import kill_marked
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB, Disk, Node

DEFAULT_MEMORY_BYTES = 2 * GIB
"""A guest's memory without a limit in the spec. Memory that it does not touch is not taken from this machine."""

GUEST_VARIABLE = "CEPHLAB_GUEST"
"""Set on every process of a run with guests, in addition to the run's own marks."""

_AGE_S = 60
"""A new machine seems to have been up for so long, if its kernel has time namespaces: see docs/guests.md. After a power
cut it is as young as it is."""
_BOOT_S = 60.0
_ANSWER_S = 20.0
_DOWN_S = 60.0
_RECORD = "process.json"
_AT_ONCE = 2


class GuestLab(LabNodes[GuestHost]):
    """Guests on a network of the run's own. Disks are files; each is in one guest at a time."""

    def __init__(
        self,
        run: Run,
        kinds: Kinds,
        parts: Mapping[Make, Parts],
        subnet: str,
        patience: float,
    ) -> None:
        super().__init__()
        self._run = run
        self._kinds = kinds
        self._parts = dict(parts)
        self._patience = patience
        self._marks = marks(run.home, run.id)
        self.network = Network(run.directory / "network", subnet, self._marks)

    @property
    def state(self) -> dict[str, Any]:
        return {
            "subnet": str(self.network.subnet),
            "patience": self._patience,
            "parts": {str(make): parts.to_json() for make, parts in self._parts.items()},
            "nodes": {name: _guest_state(guest) for name, guest in self._hosts.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, known in state["nodes"].items():
            disks = tuple(Disk(disk, size_bytes=1) for disk in known["slots"])
            changes = {key: known[key] for key in ("cores", "memory_bytes", "page_bytes", "fabrics") if key in known}
            node = Node(name, Arch(known["arch"]), disks, **changes)
            guest = self._open(node, int(known["index"]), str(known["address"]))
            guest.disks.update(known["slots"])
            record = self._folder(guest) / _RECORD
            if record.exists():
                guest.process = process.recall(json.loads(record.read_text()))

    def add_node(self, node: Node) -> Host:
        return self.add_nodes([node])[0]

    def add_nodes(self, wanted: Sequence[Node]) -> list[GuestHost]:
        for node in wanted:
            self.refuse(node)
        guests = []
        for node in wanted:
            index = self._free_index()
            guests.append(self._open(node, index, network.address_of(self.network.subnet, index)))
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            list(pool.map(self._raise_new, guests))
        return guests

    def add_node_at(self, node: Node, address: str) -> Host:
        self.refuse_at(node, address)
        guest = self._open(node, self._free_index(), address)
        self._raise_new(guest)
        return guest

    def _free_index(self) -> int:
        return max((guest.index for guest in self._hosts.values()), default=-1) + 1

    def refuse(self, node: Node) -> None:
        super().refuse(node)
        make = self._kinds.make_of(node)
        if Make(node.arch) not in self._parts:
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(map(str, self._parts))}")
        if make not in self._parts:
            raise SpecError(
                f"{node.name} asks for {make.asked}, and this lab has no kernel with them",
                f"kernels for: {', '.join(map(str, self._parts))}",
                "give a node of the spec the same from the start",
            )
        most = self._kinds.hypervisor(make).slots - FIRST_DISK
        if len(node.disks) > most:
            raise SpecError(f"{node.name} has {len(node.disks)} disks", f"wanted: at most {most}", "use more nodes")

    def _open(self, node: Node, index: int, address: str) -> GuestHost:
        hypervisor = self._kinds.hypervisor(self._kinds.make_of(node))
        control = network.control_address(index)
        connect = partial(self.network.connect, control, PORT)
        guest = GuestHost(
            node,
            index,
            address,
            emulated=hypervisor.emulated(node.arch),
            access=AgentAccess(connect, partial(self._running, node.name), self._patience),
            endpoint=Endpoint(self.network.folder, control),
        )
        guest.distortion = hypervisor.distortion
        self._folder(guest).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._hosts[node.name] = guest
        return guest

    def _running(self, name: str) -> bool:
        return self._hosts[name].running()

    def _folder(self, guest: GuestHost) -> Path:
        return self._run.directory / "guests" / guest.name

    def _raise_new(self, guest: GuestHost) -> None:
        for slot, disk in enumerate(guest.node.disks, FIRST_DISK):
            path = self._disk_file(disk.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.truncate(disk.size_bytes)
            guest.disks[disk.name] = slot
        boot.make_store(self._folder(guest) / "store.ext4")
        self.network.add_guest(guest.index)
        self._boot(guest, age=str(_AGE_S))

    def _disk_file(self, name: str) -> Path:
        return self._run.directory / "disks" / name

    def _boot(self, guest: GuestHost, **more: str) -> None:
        """Boot it and wait for its agent. more: words for init in addition to the usual ones."""
        order = self._order(guest, more)
        order.console.unlink(missing_ok=True)
        guest.process = self._of(guest).start(order)
        write_json(self._folder(guest) / _RECORD, guest.process.ref)
        clock.wait(
            lambda: self._is_ready(guest, order.console),
            bool,
            what=f"{guest.name}'s agent",
            timeout_s=_BOOT_S * self._patience,
            interval_s=0.02,
            timed_out=lambda what, seconds, _last: LabBroken(
                f"{what} did not start within {seconds:g} s", boot.console_tail(order.console)
            ),
        )
        guest.hang_up()
        self._greet(guest)

    def _order(self, guest: GuestHost, more: Mapping[str, str]) -> Boot:
        parts, hypervisor, folder = self._parts[self._kinds.make_of(guest.node)], self._of(guest), self._folder(guest)
        control = network.control_address(guest.index)
        taps = network.interfaces(guest.index)
        return Boot(
            name=guest.name,
            turn=network.number_of(self.network.subnet) + guest.index,  # runs of a home have different subnets
            arch=guest.arch,
            folder=folder,
            executable=parts.kernel.executable,
            initramfs=parts.initramfs,
            fixed=((parts.root, False), (folder / "store.ext4", True), (parts.kernel.modules, False)),
            disks={slot: self._disk_file(name) for name, slot in guest.disks.items()},
            interfaces=[Interface(taps[0], network.mac(guest.address)), Interface(taps[1], network.mac(control))],
            memory_bytes=guest.node.memory_bytes or DEFAULT_MEMORY_BYTES,
            cores=hypervisor.cores(guest.node.cores),
            words={
                **dict(zip(("root", "store", "modules"), hypervisor.fixed_names, strict=True)),
                **dict(zip(("lab_link", "control_link"), hypervisor.interface_names, strict=True)),
                "name_of_host": guest.name,
                "address": f"{guest.address}/{self.network.subnet.prefixlen}",
                "control": control,
                "keeper": network.KEEPER_ADDRESS,
                **more,
            },
            console=folder / "console.log",
            inside=self.network.inside(folder),
            marks=self._marks,
        )

    @staticmethod
    def _is_ready(guest: GuestHost, console: Path) -> bool:
        if not guest.running():
            raise LabBroken(f"{guest.name} ended while it was starting", boot.console_tail(console))
        return console.exists() and READY in console.read_bytes()

    def _greet(self, guest: GuestHost) -> None:
        """Set the guest's clock, check its page size, and tell it where its disks are."""
        greeting = clock.wait(
            lambda: self._answer(guest),
            bool,
            what=f"an answer from {guest.name}'s agent",
            timeout_s=_ANSWER_S * self._patience,
            timed_out=clock.too_slow,
        )
        pages, wanted = greeting["page_bytes"], guest.node.page_bytes
        if wanted not in (None, pages):
            raise LabBroken(f"{guest.name} has pages of {pages} bytes", f"wanted: {wanted}")
        self._tell_disks(guest)

    @staticmethod
    def _answer(guest: GuestHost) -> dict[str, Any]:
        """The guest's greeting; empty while it does not answer yet."""
        try:
            return guest.greet()
        except LabBroken:
            if not guest.running():
                raise
            return {}

    def _tell_disks(self, guest: GuestHost) -> None:
        guest.ask("disks", disks={name: self._of(guest).place(slot) for name, slot in guest.disks.items()})

    def machine_pid(self, node: str) -> int:
        """See RunsMachines. LabBroken when the machine is switched off."""
        guest = self.host(node)
        if guest.process is None or not guest.running():
            raise LabBroken(f"{node} is down", hint="start the node")
        return guest.process.pid

    def kill_node(self, name: str) -> None:
        """Cut the power. What the guest had not written to its disks is lost."""
        guest = self.host(name)
        with guest.killing:
            if guest.process is None:
                return
            guest.process.signal(signal.SIGKILL)
            if not guest.process.wait(_DOWN_S):
                raise LabBroken(f"{name} did not end after SIGKILL", f"process {guest.process.pid}")
        guest.let_go()

    def start_node(self, name: str) -> Host:
        guest = self.host(name)
        if not guest.running():
            self._boot(guest)
        return guest

    def move_disk(self, disk: str, target: str) -> None:
        source, goal = self.holder(disk), self.host(target)
        free = [slot for slot in range(FIRST_DISK, self._of(goal).slots) if slot not in goal.disks.values()]
        if not free:
            raise SpecError(f"{target} has no room for another disk", f"it has {len(goal.disks)} already")
        slot = source.disks[disk]
        if source.running():
            self._of(source).unplug(self._live(source), slot)
            source.ask("absent", place=self._of(source).place(slot))
        del source.disks[disk]
        goal.disks[disk] = free[0]
        if goal.running():
            self._of(goal).plug(self._live(goal), free[0], self._disk_file(disk))
            self._tell_disks(goal)
        if source.running():
            self._tell_disks(source)

    def _of(self, guest: GuestHost) -> Hypervisor:
        return self._kinds.hypervisor(self._kinds.make_of(guest.node))

    def _live(self, guest: GuestHost) -> RunningGuest:
        return RunningGuest(self._folder(guest), self.network.inside(self._folder(guest)))

    def disconnect(self, name: str) -> None:
        """Take a node off the network. Its processes keep running, and the lab still reaches it."""
        self.network.attach(self.host(name).index, attached=False)

    def connect(self, name: str) -> None:
        self.network.attach(self.host(name).index, attached=True)

    def hang_up(self) -> None:
        for guest in self._hosts.values():
            guest.hang_up()

    def close(self) -> None:
        self.hang_up()
        remove = partial(remove_run, self._run.home, self._run.id)
        remove_with_folders(self._run, remove, "guests", "disks", "network")


def claim_subnet(run: Run) -> str:
    """Claim a subnet that no run of this home has, with a file. Call it under a lock."""
    claims = run.home.runs.glob("*/guests-*_*")
    subnet = network.free_subnet([path.name.removeprefix("guests-").replace("_", "/") for path in claims])
    (run.directory / f"guests-{subnet.replace('/', '_')}").touch()
    return subnet


def _guest_state(guest: GuestHost) -> dict[str, Any]:
    return {
        "arch": guest.arch.value,
        "address": guest.address,
        "index": guest.index,
        "cores": guest.node.cores,
        "memory_bytes": guest.node.memory_bytes,
        "page_bytes": guest.node.page_bytes,
        "fabrics": guest.node.fabrics,
        "slots": dict(guest.disks),
    }


def marks(home: Home, run_id: str) -> Mapping[str, str]:
    """Marks in the environment of every process of a run."""
    return {RUN_VARIABLE: run_id, HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}


def remove_run(home: Home, run_id: RunId) -> list[str]:
    """Kill a run's guests, found by their environment, and its network's keeper, which ends the network."""
    return kill_marked(marks(home, run_id), run_id)


def runs_present(home: Home) -> frozenset[RunId]:
    """Ids of this home's runs with running guests or a keeper."""
    wanted = {HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}
    return run_ids(env.get(RUN_VARIABLE, "") for _, env in process.environments() if wanted.items() <= env.items())
