"""Provider `local`: each node is a set of processes on its own loopback address. No root, no engine, no VM."""

import hashlib
import os
import random
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import filelock
import psutil

from cephlab.lab.base import process
from cephlab.lab.base.errors import CleanUp, LabBroken, Unavailable
from cephlab.lab.base.home import Home, refuse_odd, temporary_folder
from cephlab.lab.base.numbers import how_many
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, Run, RunId, ours, run_ids, taken
from cephlab.lab.images.image import Image
from cephlab.lab.providers import packets
from cephlab.lab.providers.base import Images, LabNodes, refuse_foreign, remove_with_folders, removing
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.local import memory
from cephlab.lab.providers.local.host import LocalHost
from cephlab.lab.providers.local.programs import Programs, find_emulator, missing_emulator
from cephlab.lab.providers.marks import kill_marked
from cephlab.lab.providers.packets import PacketFilter
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, Disk, Node

_ALWAYS = (
    Capability.MOVE_DISK,
    Capability.TAKE_OVER,
    Capability.SECOND_IMAGE,
    Capability.THIS_MACHINE,
    Capability.DISKS_IN_HOME,
    Capability.SHARED_NETWORK,
)
_SUBNET = "127.77"
_MAX_PATH = 70  # a UNIX socket's path has at most 107 bytes; daemons add a name and a suffix
_NODES = "nodes"


class LocalLab(LabNodes[LocalHost]):
    """The nodes of one run. A file marks a killed node, so that other cephlab processes see it."""

    def __init__(self, run: Run, images: Images, subnet: int) -> None:
        super().__init__()
        self.run = run
        self.images = images
        self.subnet = subnet

    @property
    def state(self) -> dict[str, Any]:
        return {
            "subnet": self.subnet,
            "nodes": {
                name: {"arch": host.arch.value, "address": host.address, "disks": sorted(host.disks)}
                for name, host in self._hosts.items()
            },
            "images": {arch.value: _image_state(image) for arch, image in self.images.items()},
        }

    def add_node(self, node: Node) -> Host:
        return self._add(node, f"{_SUBNET}.{self.subnet}.{len(self._hosts) + 1}")

    def add_node_at(self, node: Node, address: str) -> Host:
        self.refuse_at(node, address)
        return self._add(node, address)

    def _add(self, node: Node, address: str) -> Host:
        self.refuse(node)
        image = self.images.get(node.arch)
        if image is None:
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(self.images)}")
        host = self.open(node.name, image, address, [disk.name for disk in node.disks])
        host.base.mkdir(parents=True, exist_ok=True)
        for disk in node.disks:
            self._make_disk(disk)
        return host

    def open(self, name: str, image: Image, address: str, disks: list[str]) -> LocalHost:
        """Add a node that is new or found again."""
        host = LocalHost(
            name=name,
            arch=image.arch,
            address=address,
            run_id=self.run.id,
            base=_short(self.run) / name,
            programs=Programs(image.root, image.arch),
            disks={disk: self._disk_path(disk) for disk in disks},
            home=self.run.home.path,
        )
        self._hosts[name] = host
        return host

    def _disk_path(self, name: str) -> Path:
        return self.run.directory / "disks" / name

    def _make_disk(self, disk: Disk) -> None:
        path = self._disk_path(disk.name)
        path.parent.mkdir(exist_ok=True)
        if disk.in_memory:
            memory.make(path, _mark(self.run.home, self.run.id), disk.size_bytes)
            return
        with path.open("ab") as file:
            file.truncate(disk.size_bytes)

    def with_image(self, node: str, image: Image) -> Host:
        host = self.host(node)
        refuse_foreign(host, image)
        return replace(host, programs=Programs(image.root, image.arch))

    def kill_node(self, name: str) -> None:
        host = self.host(name)
        host.down_file.touch()
        kill_marked(host.marks, name)

    def start_node(self, name: str) -> Host:
        host = self.host(name)
        host.down_file.unlink(missing_ok=True)
        return host

    def move_disk(self, disk: str, target: str) -> None:
        source, goal = self.holder(disk), self.host(target)
        goal.disks[disk] = source.disks.pop(disk)

    # Cutting links needs root. Daemons bind their own address before they connect. Connections of managers and clients
    # come from 127.0.0.1 and are not cut.

    def cut(self, source: str, target: str) -> None:
        self._links.drop(self.host(source).address, self.host(target).address)

    def cut_packets(self) -> int:
        return self._links.dropped()

    def mend_links(self) -> None:
        self._links.clear()

    @property
    def _links(self) -> PacketFilter:
        return PacketFilter(_mark(self.run.home, self.run.id))

    def close(self) -> None:
        remove_with_folders(self.run, partial(remove_run, self.run.home, self.run.id), _NODES, "disks")


class LocalProvider:
    """Nodes as processes. Needs Linux, and qemu-user for nodes of another architecture."""

    name = "local"
    cost = 1
    unsaid = (
        "Nodes of the local provider share this machine's kernel and loopback network: "
        "the run says nothing about kernels, network cards or partitions."
    )

    def capabilities(self) -> frozenset[Capability]:
        able = set(_ALWAYS)
        if find_emulator(host_arch().other):
            able.add(Capability.FOREIGN_ARCH)
        if packets.obstacle() is None:
            able.add(Capability.CUT_LINKS)
        if memory.obstacle() is None:
            able.add(Capability.MEMORY_DISK)
        return frozenset(able)

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        if sys.platform != "linux":
            return Unavailable("the local provider needs Linux", f"this is {sys.platform}", "use --lab container")
        if spec is None:
            return None
        for arch in spec.archs:
            if arch is not host_arch() and find_emulator(arch) is None:
                return missing_emulator(arch)
        return None

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet) -> Iterator[LocalLab]:
        with filelock.FileLock(run.directory.parent / ".subnets.lock"):
            lab = LocalLab(run, images, _free_subnet(run))
            (run.directory / f"subnet-{lab.subnet}").touch()
        with removing(run, lab.close):
            for node in spec.nodes:
                lab.add_node(node)
            yield lab

    def attach(self, run: Run, state: Mapping[str, Any]) -> LocalLab:
        images = {image.arch: image for image in map(_image_from, state["images"].values())}
        lab = LocalLab(run, images, int(state["subnet"]))
        for name, node in state["nodes"].items():
            lab.open(name, images[Arch(node["arch"])], node["address"], node["disks"])
        return lab

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        return remove_run(home, run_id)

    def leftovers(self, home: Home) -> frozenset[RunId]:
        wanted = {HOME_MARK: str(home.path)}
        marked = {env.get(RUN_VARIABLE, "") for _, env in process.environments() if wanted.items() <= env.items()}
        own = _mark(home, "")
        marked |= memory.marked(own)
        if packets.obstacle() is None:
            marked |= {mark.removeprefix(own) for mark in packets.marked(own)}
        prefix = _link("").name
        linked = run_ids(path.name.removeprefix(prefix) for path in temporary_folder().glob(f"{prefix}*"))
        return run_ids(marked) | {run_id for run_id in linked if _linked(home, run_id)}


def remove_run(home: Home, run_id: RunId) -> list[str]:
    """Kill a run's processes, found by their environment, and remove what it has outside its directory.

    Returns what was removed. Continues after an error and raises CleanupFailed at the end.
    """
    mark = _mark(home, run_id)
    steps: tuple[Callable[[], list[str]], ...] = (
        lambda: kill_marked({RUN_VARIABLE: run_id, HOME_MARK: str(home.path)}, run_id),
        lambda: _unlink(home, run_id),
        lambda: memory.remove(mark),
        lambda: _clear_packets(mark),
    )
    removed: list[str] = []
    clean_up = CleanUp()
    for step in steps:
        with clean_up.step():
            removed += step()
    clean_up.end()
    return removed


def _unlink(home: Home, run_id: RunId) -> list[str]:
    if not _linked(home, run_id):
        return []
    _link(run_id).unlink()
    return [str(_link(run_id))]


def _clear_packets(mark: str) -> list[str]:
    rules = PacketFilter(mark).clear() if packets.obstacle() is None else 0
    return [f"{how_many(rules, 'rule')} of the packet filter"] if rules else []


def _mark(home: Home, run_id: str) -> str:
    """Marks a run's packet filter rules and disks in memory. Contains the home: two homes may use one run name."""
    return f"cephlab:{hashlib.sha256(str(home.path).encode()).hexdigest()[:12]}:{run_id}"


def _linked(home: Home, run_id: RunId) -> bool:
    """Whether the short name is this user's link to this run. Anybody can make other links of that name."""
    link = _link(run_id)
    return ours(link, stat.S_ISLNK) and link.readlink() == home.runs / run_id / _NODES


def _link(run_id: str) -> Path:
    return temporary_folder() / f"cephlab-{os.getuid()}-{run_id}"


def _short(run: Run) -> Path:
    """The nodes' directory, or a short link to it in the temporary folder if its path is too long for sockets."""
    nodes = run.directory / _NODES
    nodes.mkdir(mode=0o700, exist_ok=True)
    if len(str(nodes)) <= _MAX_PATH:
        return nodes
    link = _link(run.id)
    if len(str(link)) > _MAX_PATH:
        raise LabBroken(
            f"{link} is too long for the sockets below it",
            f"got {len(str(link))} characters, wanted: at most {_MAX_PATH}; {nodes} is too long too",
            "set CEPHLAB_HOME or TMPDIR to a shorter path",
        )
    refuse_odd(str(link), "TMPDIR")
    try:
        link.symlink_to(nodes)
    except FileExistsError:
        # Made by an earlier process of this run, or by another user, because everybody can write there.
        if not ours(link, stat.S_ISLNK) or link.resolve() != nodes.resolve():
            raise taken(link, f"a link of this user to {nodes}") from None
    return link


def _free_subnet(run: Run) -> int:
    """A subnet 127.77.x that no run of this home claims and nothing listens on."""
    claimed = {int(path.name.rpartition("-")[2]) for path in run.directory.parent.glob("*/subnet-*")}
    for connection in psutil.net_connections("tcp4"):
        address = connection.laddr.ip if connection.laddr else ""
        if address.startswith(f"{_SUBNET}."):
            claimed.add(int(address.split(".")[2]))
    free = [subnet for subnet in range(1, 255) if subnet not in claimed]
    if not free:
        raise LabBroken("no loopback subnet is free", f"all of {_SUBNET}.1-254 are taken", "run `cephlab prune`")
    # A replay does not depend on this choice. It keeps two homes from taking the same subnet at once.
    return random.SystemRandom().choice(free)


def _image_state(image: Image) -> dict[str, Any]:
    return {
        "release": image.release,
        "arch": image.arch.value,
        "key": image.key,
        "root": str(image.root),
        "packages": dict(image.packages),
    }


def _image_from(state: Mapping[str, Any]) -> Image:
    return Image(state["release"], Arch(state["arch"]), state["key"], Path(state["root"]), state["packages"])
