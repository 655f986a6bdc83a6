"""The nodes of one run as LXD instances: makes, kills and removes them, and moves their disks, also between LXDs."""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError, noted_on
from cephlab.lab.base.runs import Run
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.engine.lab import EngineLab, node_from, node_state
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.lxd import names, nodes
from cephlab.lab.providers.lxd.host import LxdHost
from cephlab.lab.providers.lxd.kind import InstanceKind, ServerCapacity, Supply, place_nodes
from cephlab.lab.providers.lxd.networks import TUNNEL_MTU
from cephlab.lab.providers.lxd.removal import InstanceRemoval
from cephlab.lab.providers.lxd.server import Server, lxd_errors
from cephlab.lab.spec.clusterspec import Node

_log = logging.getLogger(__name__)

_RAISE_AT_ONCE = 4
_PUSH = {"type": "migration", "mode": "push"}


class LxdLab(EngineLab[LxdHost]):
    """Instances on a bridge of their own. With several machines, the first one's bridge is the centre of a star."""

    def __init__(self, kind: InstanceKind, servers: Sequence[Server], run: Run, subnet: str, supply: Supply) -> None:
        super().__init__(run, subnet, [arch for _, arch in supply.fingerprints])
        self._kind = kind
        self._servers = list(servers)
        self._fingerprints = dict(supply.fingerprints)
        self._emulated = supply.emulated
        self._plugging = threading.Lock()

    @property
    def state(self) -> dict[str, Any]:
        return {
            "servers": [server.address.url for server in self._servers],
            "subnet": str(self._subnet),
            "emulated": sorted(arch.value for arch in self._emulated),
            "images": [[url, arch.value, image] for (url, arch), image in self._fingerprints.items()],
            "nodes": {
                name: {"server": host.server.address.url, **node_state(host)} for name, host in self._hosts.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        servers = {server.address.url: server for server in self._servers}
        for name, known in state["nodes"].items():
            self._open(node_from(name, known), str(known["address"]), servers[known["server"]])

    def capacities(self) -> list[ServerCapacity]:
        """Free memory and architectures of the machines now, for placement."""
        capacities = []
        for server in self._servers:
            memory = server.resources()["memory"]
            free_bytes = int(memory["total"]) - int(memory["used"])
            emulated = self._emulated if server.local else frozenset()
            capacities.append(ServerCapacity(server.address.url, server.arch, free_bytes, emulated))
        return capacities

    def add_node_at(self, node: Node, address: str) -> Host:
        self.refuse_at(node, address)
        for host in self._hosts.values():
            if host.address == address:
                nodes.unwire(host)  # LXD refuses a MAC address of another interface, even of a stopped instance
        chosen = place_nodes([node], self.capacities())
        host = self._open(node, address, self._servers[chosen[node.name]])
        self._raise(host)
        return host

    def add_nodes(self, wanted: Sequence[Node]) -> list[LxdHost]:
        for node in wanted:
            self.refuse(node)
        chosen = place_nodes(wanted, self.capacities())
        hosts = [self._open(node, self.free_address(), self._servers[chosen[node.name]]) for node in wanted]
        with ThreadPoolExecutor(max_workers=_RAISE_AT_ONCE) as pool:
            list(pool.map(self._raise, hosts))
        return hosts

    def _open(self, node: Node, address: str, server: Server) -> LxdHost:
        host = LxdHost(
            server=server,
            project=names.project_name(self._run.id),
            node=node,
            address=address,
            disks={disk.name: disk for disk in node.disks},
            kind=self._kind,
            mtu=TUNNEL_MTU if len(self._servers) > 1 else None,
        )
        self._hosts[node.name] = host
        return host

    def _raise(self, host: LxdHost) -> None:
        fingerprint = self._fingerprints[host.server.address.url, host.arch]
        nodes.make(host, self._run.id, fingerprint, self._subnet.prefixlen)

    def kill_node(self, name: str) -> None:
        host = self.host(name)
        if host.up():
            nodes.stop(host)

    def start_node(self, name: str) -> Host:
        host = self.host(name)
        if not host.up():
            nodes.start(host)
        return host

    def move_disk(self, disk: str, target: str) -> None:
        """Take a disk's volume out of one instance and put it into another, running or not.

        Between two machines its whole content goes over the network.
        """
        source, goal = self.holder(disk), self.host(target)
        if source is goal:
            return
        with self._plugging:
            nodes.unplug(source, disk)
            if source.server is not goal.server:
                self._carry(disk, source, goal)
            goal.disks[disk] = source.disks.pop(disk)
            nodes.plug(goal, goal.disks[disk])
            for host in (source, goal):
                nodes.resettle(host)

    def _carry(self, disk: str, source: LxdHost, goal: LxdHost) -> None:
        """Move the volume to the other machine, or put it back into its node after an error."""
        try:
            carry(source.server, goal.server, source.project, disk)
        except LabError as error:
            with noted_on(error, "putting it back"):
                nodes.plug(source, source.disks[disk])
            raise

    def close(self) -> None:
        try:
            InstanceRemoval(self._servers, self._home, self._run.id).everything()
        finally:
            for server in self._servers:
                server.close()


def carry(source: Server, target: Server, project: str, volume: str) -> None:
    """Move a custom volume that no instance uses. After an error it stays where it was.

    The other LXD connects to the one that listens on the network, with its address, its certificate, and secrets that
    LXD makes for this volume only. Neither needs to trust the other. The whole volume is read, including holes, which
    stay holes (rsync --sparse, or the storage driver's own transfer between two of the same kind).
    """
    doing = f"moving {volume} from {source.address.url} to {target.address.url}"
    node = _volumes(source, project)[volume]
    request = _copy_request(volume, source.get(doing, node))
    try:
        if target.address.host:
            _push(doing, source, target, project, request)
        else:
            _pull(doing, source, target, project, request)
    except BaseException:
        _forget(target, project, volume)
        raise
    with lxd_errors(f"removing {volume} from its old place"):
        source.wait(doing, node.delete())


def _push(doing: str, source: Server, target: Server, project: str, request: Mapping[str, Any]) -> None:
    """The target waits, the source sends."""
    volume = request["name"]
    with lxd_errors(doing):
        waiting = _volumes(target, project).post(json={**request, "source": _PUSH}).json()["metadata"]
        migration = {"name": volume, "migration": True, "target": _endpoint(target, waiting)}
        sending = _volumes(source, project)[volume].post(json=migration)
    source.wait(doing, sending)
    target.wait_for(doing, waiting["id"])


def _pull(doing: str, source: Server, target: Server, project: str, request: Mapping[str, Any]) -> None:
    """The source waits, the target fetches."""
    volume = request["name"]
    with lxd_errors(doing):
        migration = {"name": volume, "migration": True}
        waiting = _volumes(source, project)[volume].post(json=migration).json()["metadata"]
        origin = {"type": "migration", "mode": "pull", **_endpoint(source, waiting)}
        fetching = _volumes(target, project).post(json={**request, "source": origin})
    target.wait(doing, fetching)
    source.wait_for(doing, waiting["id"])


def _copy_request(volume: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Asks for a volume like the source, including the mapping of user ids of its files on disk."""
    kind = source.get("content_type", "filesystem")
    return {"name": volume, "type": "custom", "content_type": kind, "config": dict(source["config"])}


def _endpoint(server: Server, waiting: Mapping[str, Any]) -> dict[str, Any]:
    """What the other LXD needs to connect to a waiting operation."""
    certificate = server.address.server
    if certificate is None:
        raise LabBroken(f"no certificate of {server.address.url} is known")
    return {
        "operation": f"{server.address.url}/1.0/operations/{waiting['id']}",
        "certificate": certificate.read_text(),
        "secrets": dict(waiting["metadata"]),
    }


def _volumes(server: Server, project: str) -> Any:
    return server.api(project).storage_pools[server.pool].volumes.custom


def _forget(server: Server, project: str, volume: str) -> None:
    """Remove a partial copy, if any. An error here is only logged, because another one is being raised."""
    try:
        with lxd_errors(f"removing the partial copy of {volume}"):
            server.wait("removing", _volumes(server, project)[volume].delete())
    except NotThere:
        return
    except LabError as error:
        _log.warning("%s", error)
