"""The nodes of one run as containers: raised, killed, moved between, partitioned, removed."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lab import clock
from lab.arch import Arch
from lab.errors import CleanupFailed, LabBroken, SpecError
from lab.host import Host
from lab.providers import addresses
from lab.providers.container import execs, imported, names, nodes, strain
from lab.providers.container.engine import Engine, engine_errors
from lab.providers.container.host import ContainerHost
from lab.providers.container.removal import Removal
from lab.runs import Run
from lab.spec import DiskLimits, Node

_DOWN_S = 30.0
_SETTLE_S = 5.0
_RAISE_AT_ONCE = 4


class ContainerLab:
    """Containers on a bridge network of their own.

    Every container mounts the one volume with all disks of the run, as engines cannot plug a volume into a
    running container. Which disk is in which node is what this lab says: `Host.disk` hands out only those, and
    Ceph uses no other, but nothing stops a program from opening a disk of another node below /cephlab/disks.
    """

    def __init__(self, engine: Engine, run: Run, subnet: str, images: Mapping[Arch, str]) -> None:
        self._engine = engine
        self._run = run
        self._home = names.home_of(run)
        self._subnet = ipaddress.IPv4Network(subnet)
        self._images = dict(images)
        self._hosts: dict[str, ContainerHost] = {}

    @property
    def hosts(self) -> Mapping[str, Host]:
        return self._hosts

    @property
    def state(self) -> dict[str, Any]:
        return {
            "engine": self._engine.endpoint,
            "subnet": str(self._subnet),
            "images": {arch.value: image for arch, image in self._images.items()},
            "nodes": {name: _node_state(host) for name, host in self._hosts.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take the nodes from `state`; they exist already."""
        for name, found in state["nodes"].items():
            disks = {disk: nodes.disk_from(disk, raw) for disk, raw in found["disks"].items()}
            node = Node(
                name,
                Arch(found["arch"]),
                tuple(disks.values()),
                (),
                cores=found["cores"],
                memory_bytes=found["memory_bytes"],
            )
            host = self._open(node, str(found["address"]))
            host.devices.update({d: Path(raw["device"]) for d, raw in found["disks"].items() if raw["device"]})

    def pulled_image(self, arch: Arch) -> tuple[str, tuple[str, ...]]:
        return imported.identity(self._engine, self._images[arch])

    def add_node(self, node: Node) -> Host:
        return self.add_nodes([node])[0]

    def add_node_at(self, node: Node, address: str) -> Host:
        self._refuse(node)
        if any(host.address == address and host.up() for host in self._hosts.values()):
            raise SpecError(f"{node.name} cannot have {address}", "a machine that is on has it", "switch that one off")
        made = self._open(node, address)
        self._raise_with_disks(made)
        return made

    def add_nodes(self, wanted: Sequence[Node]) -> list[ContainerHost]:
        """Raise several machines at once, with their disks."""
        for node in wanted:
            self._refuse(node)
        made = [self._open(node, addresses.free_address(self._subnet, self._addresses())) for node in wanted]
        # Once, before all: Podman refuses one of two that make the same volume at once.
        nodes.make_volume(self._engine, names.disks_volume(self._run.id), names.labels(self._run.id, self._home))
        with ThreadPoolExecutor(max_workers=_RAISE_AT_ONCE) as pool:
            list(pool.map(self._raise_with_disks, made))
        return made

    def _refuse(self, node: Node) -> None:
        if node.name in self._hosts:
            raise SpecError(f"there is a node {node.name!r} already", hint="choose another name")
        if node.arch not in self._images:
            raise LabBroken(f"no image for {node.arch}", f"images: {', '.join(self._images)}")
        known = {disk for host in self._hosts.values() for disk in host.disks}
        for disk in node.disks:
            if disk.name in known:
                raise SpecError(f"there is a disk {disk.name!r} already", hint="choose another name")

    def _addresses(self) -> list[str]:
        return [host.address for host in self._hosts.values()]

    def _open(self, node: Node, address: str) -> ContainerHost:
        host = ContainerHost(
            engine=self._engine,
            container=names.container_name(self._run.id, node.name),
            node=node,
            address=address,
            disks={disk.name: disk for disk in node.disks},
        )
        self._hosts[node.name] = host
        return host

    def _raise(self, host: ContainerHost) -> None:
        nodes.raise_container(host, self._run.id, self._home, self._images[host.arch])

    def _raise_with_disks(self, host: ContainerHost) -> None:
        self._raise(host)
        nodes.make_disks(host)

    def _host(self, name: str) -> ContainerHost:
        if name not in self._hosts:
            raise SpecError(f"there is no node {name!r}", f"nodes: {', '.join(self._hosts)}")
        return self._hosts[name]

    def kill_node(self, name: str) -> None:
        host = self._host(name)
        if not host.up():
            return
        with engine_errors(f"killing {name}"):
            self._engine.client.api.kill(host.container, "SIGKILL")
        clock.wait(host.up, lambda up: not up, what=f"the end of {name}", timeout_s=_DOWN_S, interval_s=0.02)

    def start_node(self, name: str) -> Host:
        host = self._host(name)
        if self._exists(host):
            with engine_errors(f"starting {name}"):
                self._engine.client.api.start(host.container)
        else:
            self._raise(host)
        return host

    def _exists(self, host: ContainerHost) -> bool:
        with engine_errors(f"looking for {host.name}"):
            return bool(self._engine.client.api.containers(all=True, filters={"name": f"^/?{host.container}$"}))

    def move_disk(self, disk: str, target: str) -> None:
        """Put a disk into another node, at once; the daemons of either may go on running.

        But for a disk with limits: those are the container's, so that both containers are made anew with their
        directories and addresses, and nothing may run in them.
        """
        sources = [host for host in self._hosts.values() if disk in host.disks]
        if not sources:
            raise LabBroken(f"no node has a disk {disk!r}")
        source, goal = sources[0], self._host(target)
        bounded = source.disks[disk].limits.any()
        if bounded:
            self._refuse_busy(source)
            self._refuse_busy(goal)
        goal.disks[disk] = source.disks.pop(disk)
        device = source.devices.pop(disk, None)
        if device is not None:
            goal.devices[disk] = device
        if bounded:
            self._renew(source)
            self._renew(goal)

    def _refuse_busy(self, host: ContainerHost) -> None:
        def busy(found: int) -> LabBroken:
            return LabBroken(
                f"{host.name} must be idle while a disk with limits is moved",
                f"{found} command(s) run on it",
                "stop its daemons first",
            )

        # The engine hears of a process's end a moment after the process has ended.
        clock.wait(
            lambda: self._commands(host),
            lambda found: found == 0,
            what=f"an idle {host.name}",
            timeout_s=_SETTLE_S,
            timed_out=lambda _what, _timeout, last: busy(int(last)),
        )

    def _commands(self, host: ContainerHost) -> int:
        """How many commands run in a container, beside the one that keeps it up."""
        if not self._exists(host):
            return 0
        with engine_errors(f"looking at {host.name}"):
            known = self._engine.client.api.inspect_container(host.container).get("ExecIDs") or []
        # Podman goes on listing those that have ended.
        states = [execs.inspect(self._engine.client, str(exec_id)) for exec_id in known]
        return sum(state is not None and bool(state["Running"]) for state in states)

    def _renew(self, host: ContainerHost) -> None:
        """Make the container anew; one that is down is made when it is started."""
        was_up = host.up()
        if self._exists(host):
            with engine_errors(f"removing {host.container}"):
                self._engine.client.api.remove_container(host.container, force=True)
        if was_up:
            self._raise(host)

    def disconnect(self, name: str) -> None:
        """Take a node off the network; its processes go on."""
        host = self._host(name)
        with engine_errors(f"disconnecting {name}"):
            self._engine.client.api.disconnect_container_from_network(host.container, names.network_name(self._run.id))

    def connect(self, name: str) -> None:
        """Put a disconnected node back on the network, under its address."""
        host = self._host(name)
        with engine_errors(f"connecting {name}"):
            self._engine.client.api.connect_container_to_network(
                host.container,
                names.network_name(self._run.id),
                ipv4_address=host.address,
                aliases=[name],
                mac_address=addresses.mac_address(host.address),
            )

    # What else can be made worse; see the protocols in `lab.providers.base`. Each is the kernel's, and ends with it.

    def cut(self, source: str, target: str) -> None:
        strain.links(self._host(target)).drop(self._host(source).address, self._host(target).address)

    def cut_packets(self) -> int:
        return sum(strain.links(host).dropped() for host in self._hosts.values() if host.up())

    def mend_links(self) -> None:
        for host in self._hosts.values():
            if host.up():
                strain.links(host).clear()

    def slow_network(self, node: str, bytes_s: int | None) -> None:
        strain.slow_network(self._host(node), bytes_s)

    def held_packets(self, node: str) -> int:
        return strain.held_packets(self._host(node))

    def slow_disks(self, node: str, limits: DiskLimits | None) -> None:
        strain.slow_disks(self._host(node), limits)

    def memory_used(self, node: str) -> int:
        return strain.memory_used(self._host(node))

    def squeeze_memory(self, node: str, limit_bytes: int | None) -> None:
        strain.squeeze_memory(self._host(node), limit_bytes)

    def close(self) -> None:
        removal = Removal(self._engine, self._home, self._run.id).everything()
        self._engine.close()
        if removal.errors:
            raise CleanupFailed(removal.errors)


def _node_state(host: ContainerHost) -> dict[str, Any]:
    return {
        "arch": host.arch.value,
        "address": host.address,
        "cores": host.node.cores,
        "memory_bytes": host.node.memory_bytes,
        "disks": {name: nodes.disk_state(disk, host.devices.get(name)) for name, disk in host.disks.items()},
    }
