"""Ways in which a gateway stops to answer and still has writes in it, which it sends when it is back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import psutil

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.blockstack.nvmeof import PORT
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.fault import Sign, look_for
from cephlab.lab.faults.nodes import OneNode, cannot
from cephlab.lab.providers.base import RunsMachines, Unplugs
from cephlab.lab.spec.clusterspec import Capability

STUCK_S = 1.5
"""Long enough that every worker of the load waits for a request that the gateway holds."""


@dataclass(frozen=True)
class IsolateNode(OneNode):
    """A machine loses its way to the OSDs first, and with requests held in it all of its network."""

    name: ClassVar[str] = "isolate-node"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.PARTITION})

    @property
    def target(self) -> str:
        return self.node

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab, host = own(cluster).lab, cluster.hosts[self.node]
        if not isinstance(lab, Unplugs):
            raise cannot(cluster, "take a node off the network")
        storage = sorted({f"{daemon.host.address}/32" for daemon in cluster.daemons.values()})
        try:
            for address in storage:
                host.run(["ip", "route", "add", "blackhole", address])
            SYSTEM.sleep(STUCK_S)
            lab.disconnect(self.node)
            yield
        finally:
            lab.connect(self.node)
            for address in storage:
                host.run(["ip", "route", "del", "blackhole", address], check=False)

    def sign(self, cluster: Cluster) -> Sign:
        return unheard(cluster, self.node)


@dataclass(frozen=True)
class PauseMachine(OneNode):
    """A machine stands still with all that is in it, and goes on later as if nothing had been."""

    name: ClassVar[str] = "pause-machine"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.POWER_CUT})

    @property
    def target(self) -> str:
        return self.node

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        lab = own(cluster).lab
        if not isinstance(lab, RunsMachines):
            raise cannot(cluster, "run machines as processes")
        machine = psutil.Process(lab.machine_pid(self.node))
        try:
            machine.suspend()
            yield
        finally:
            machine.resume()

    def sign(self, cluster: Cluster) -> Sign:
        return unheard(cluster, self.node)


def unheard(cluster: Cluster, node: str) -> Sign:
    """Proof that a gateway answers nobody, by the machine of the lab's client."""
    ask = f"import socket; socket.create_connection(('{cluster.hosts[node].address}', {PORT}), 1)"
    host = cluster.client.host

    def silent() -> int:
        return int(host.run(["python3", "-c", ask], check=False).code != 0)

    return look_for("a gateway that nobody reaches", silent, patience=cluster.patience)
