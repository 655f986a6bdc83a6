"""The nodes of one run as containers: makes, kills, partitions and removes them, and moves their disks."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.numbers import how_many
from cephlab.lab.base.runs import Run
from cephlab.lab.images.image import Image
from cephlab.lab.providers import addresses
from cephlab.lab.providers.base import refuse_foreign
from cephlab.lab.providers.container import execs, imported, names, nodes, strain
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.container.host import ContainerHost
from cephlab.lab.providers.container.removal import ContainerRemoval, labelled
from cephlab.lab.providers.engine.lab import EngineLab, node_from, node_state
from cephlab.lab.providers.engine.provider import exporter
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DiskLimits, Node

_DOWN_S = 30.0
_SETTLE_S = 30.0
_RAISE_AT_ONCE = 4


class ContainerLab(EngineLab[ContainerHost]):
    """Containers on a bridge network of their own.

    Every container mounts one volume with all disks of the run, because engines cannot plug a volume into a running
    container. This lab decides which disk is in which node. `Host.disk` hands out only those and Ceph uses no others,
    but a program could open a disk of another node below /cephlab/disks.
    """

    def __init__(self, engine: Engine, run: Run, subnet: str, images: Mapping[Arch, imported.EngineImage]) -> None:
        super().__init__(run, subnet, tuple(images))
        self._engine = engine
        self._images = dict(images)
        self._removed: dict[str, list[tuple[str, str]]] = {}
        """Containers of other images that are to be made with their node's own: node -> (name, image)."""

    @property
    def state(self) -> dict[str, Any]:
        return {
            "engine": self._engine.endpoint,
            "subnet": str(self._subnet),
            "images": {arch.value: image.name for arch, image in self._images.items()},
            "digests": {arch.value: list(image.digests) for arch, image in self._images.items()},
            "nodes": {name: _node_state(host) for name, host in self._hosts.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, known in state["nodes"].items():
            host = self._open(node_from(name, known), str(known["address"]))
            host.devices.update({d: Path(raw["device"]) for d, raw in known["disks"].items() if raw["device"]})

    def pulled_image(self, arch: Arch) -> tuple[str, tuple[str, ...]]:
        image = self._images[arch]
        return image.name, image.digests

    def with_image(self, node: str, image: Image) -> Host:
        """A second container for the node: same address, directory and disks, but the programs of that image."""
        host = self.host(node)
        refuse_foreign(host, image)
        loaded = imported.ensure(self._engine, image, exporter(self._home, "oci"))
        beside = replace(host, container=names.beside_name(self._run.id, node, image.key))
        if not self._exists(beside):
            nodes.raise_container(beside, self._run.id, self._home, loaded.name, beside=host.container)
        return beside

    def add_node_at(self, node: Node, address: str) -> Host:
        self.refuse_at(node, address)
        host = self._open(node, address)
        self._raise_with_disks(host)
        return host

    def add_nodes(self, wanted: Sequence[Node]) -> list[ContainerHost]:
        for node in wanted:
            self.refuse(node)
        hosts = [self._open(node, self.free_address()) for node in wanted]
        # Made before the threads start, because Podman refuses one of two requests at once for the same volume.
        nodes.make_volume(self._engine, names.disks_volume(self._run.id), names.labels(self._run.id, self._home))
        with ThreadPoolExecutor(max_workers=_RAISE_AT_ONCE) as pool:
            list(pool.map(self._raise_with_disks, hosts))
        return hosts

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
        nodes.raise_container(host, self._run.id, self._home, self._images[host.arch].name)

    def _raise_with_disks(self, host: ContainerHost) -> None:
        self._raise(host)
        nodes.make_disks(host)

    def kill_node(self, name: str) -> None:
        host = self.host(name)
        with engine_errors(f"killing {name}"):
            for container in self._running(host):
                self._engine.client.api.kill(container, "SIGKILL")
        clock.wait(
            lambda: self._running(host),
            lambda running: not running,
            what=f"the shutdown of {name}",
            timeout_s=_DOWN_S,
            interval_s=0.02,
            timed_out=clock.too_slow,
        )

    def start_node(self, name: str) -> Host:
        host = self.host(name)
        if self._exists(host):
            with engine_errors(f"starting {name}"):
                # Its own comes first: containers of other images use its network.
                for container in self._states(host):
                    self._engine.client.api.start(container)
        else:
            self._raise_all(host)
        return host

    def _raise_all(self, host: ContainerHost) -> None:
        """Make the node's own container, and those of other images that were removed with it."""
        self._raise(host)
        for name, image in self._removed.pop(host.name, ()):
            beside = replace(host, container=name)
            nodes.raise_container(beside, self._run.id, self._home, image, beside=host.container)

    def _containers(self, host: ContainerHost) -> dict[str, Mapping[str, Any]]:
        """A node's containers by name, its own first, then one for each other image."""
        labels = {**names.labels(self._run.id, self._home), names.NODE_LABEL: host.name}
        with engine_errors(f"looking for {host.name}"):
            listed = labelled(self._engine.client.api.containers, labels, all=True)
        by_name = {str(container["Names"][0]).lstrip("/"): container for container in listed}
        return {name: by_name[name] for name in sorted(by_name, key=len)}

    def _states(self, host: ContainerHost) -> dict[str, str]:
        return {name: str(container["State"]) for name, container in self._containers(host).items()}

    def _running(self, host: ContainerHost) -> list[str]:
        return [name for name, state in self._states(host).items() if state == "running"]

    def _exists(self, host: ContainerHost) -> bool:
        with engine_errors(f"looking for {host.name}"):
            return bool(self._engine.client.api.containers(all=True, filters={"name": f"^/?{host.container}$"}))

    def move_disk(self, disk: str, target: str) -> None:
        """Put a disk into another node, at once; the daemons of both nodes may keep running.

        A disk with limits is different: the limits belong to the container. Both containers are recreated, with
        their directories and addresses, and nothing may run in them.
        """
        source, goal = self.holder(disk), self.host(target)
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
        # The engine notices the end of a process with a short delay.
        clock.wait(
            lambda: self._commands(host),
            lambda commands: commands == 0,
            what=f"an idle {host.name}",
            timeout_s=_SETTLE_S,
            timed_out=lambda _what, _timeout_s, commands: LabBroken(
                f"{host.name} must be idle while a disk with limits is moved",
                f"{how_many(commands, 'command')} run on it",
                "stop its daemons first",
            ),
        )

    def _commands(self, host: ContainerHost) -> int:
        """How many commands run in the node's containers, without those that keep them up."""
        api = self._engine.client.api
        with engine_errors(f"inspecting {host.name}"):
            known = [ident for name in self._states(host) for ident in api.inspect_container(name).get("ExecIDs") or []]
        # Podman still lists commands that have ended.
        states = [execs.inspect(self._engine.client, str(exec_id)) for exec_id in known]
        return sum(state is not None and bool(state["Running"]) for state in states)

    def _renew(self, host: ContainerHost) -> None:
        """Make the node's containers again. Those of a node that is down are made when it is started.

        Containers of other images use the network of the node's own, so they cannot outlive it.
        """
        was_up = host.up()
        images = {name: str(container["Image"]) for name, container in self._containers(host).items()}
        others = [(name, image) for name, image in images.items() if name != host.container]
        self._removed.setdefault(host.name, []).extend(others)
        with engine_errors(f"removing the containers of {host.name}"):
            for name in reversed(images):
                self._engine.client.api.remove_container(name, force=True)
        if was_up:
            self._raise_all(host)

    def disconnect(self, name: str) -> None:
        """Take a node off the network; its processes keep running."""
        host = self.host(name)
        with engine_errors(f"disconnecting {name}"):
            self._engine.client.api.disconnect_container_from_network(host.container, names.network_name(self._run.id))

    def connect(self, name: str) -> None:
        host = self.host(name)
        with engine_errors(f"connecting {name}"):
            self._engine.client.api.connect_container_to_network(
                host.container,
                names.network_name(self._run.id),
                ipv4_address=host.address,
                aliases=[name],
                mac_address=addresses.mac_address(host.address),
            )

    # See the protocols in lab/providers/base.py. These limits end with the container.

    def slow_network(self, node: str, bytes_s: int | None) -> None:
        strain.slow_network(self.host(node), bytes_s)

    def held_packets(self, node: str) -> int:
        return strain.held_packets(self.host(node))

    def slow_disks(self, node: str, limits: DiskLimits | None) -> None:
        strain.slow_disks(self.host(node), limits)

    def memory_used(self, node: str) -> int:
        return strain.memory_used(self.host(node))

    def squeeze_memory(self, node: str, limit_bytes: int | None) -> None:
        strain.squeeze_memory(self.host(node), limit_bytes)

    def close(self) -> None:
        try:
            ContainerRemoval(self._engine, self._home, self._run.id).everything()
        finally:
            self._engine.close()


def _node_state(host: ContainerHost) -> dict[str, Any]:
    state = node_state(host)
    for name, disk in state["disks"].items():
        disk["device"] = str(host.devices[name]) if name in host.devices else None
    return state
