"""What the CephFS scenarios share: the cluster, a choice of the active metadata server, and MDS commands."""

import json
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import FILE_SYSTEM, MDS, active
from cephlab.lab.spec.arch import Arch
from cephlab.suites.expected import HEALTH_TOLD

PAIR = Topology(native=2, foreign=1, services=(("n0", (MDS.kind,)), ("n2", (MDS.kind,))))
"""A metadata server of each architecture: one is active, the other stands by."""
TAKE_OVER_S = 60.0
"""Time for the standby of a stopped server to take over, before patience. Measured: 1 to 3 s."""
EXPECTED = {
    **HEALTH_TOLD,
    r"client\.\d+ error registering admin socket command: \(17\) File exists": (
        "A manager that starts when a file system exists mounts it twice and gives both clients the same name."
    ),
    r"mds\.\d+\.journaler\.pq\(rw\) |mds\.\d+\.\d+ we have been blocklisted": (
        "The monitors give the rank to another server if one does not stop; the rest of its purges is refused."
    ),
}
"""A server that is stopped leaves the file system degraded and without a standby for a moment."""


def wait_active(cluster: Cluster, count: int = 1, *, but: str = "") -> list[str]:
    """Wait until `count` metadata servers are active, none of them `but`; returns their names."""
    return clock.wait(
        lambda: active(cluster.client),
        lambda names: len(names) == count and but not in names,
        what=f"{count} active metadata servers",
        timeout_s=TAKE_OVER_S * cluster.patience,
        interval_s=0.2,
    )


def served_by(cluster: Cluster, arch: Arch) -> str:
    """Make the metadata server of an architecture the active one, the other the standby; returns its name."""
    [name] = wait_active(cluster)
    if cluster.host_of(name).arch is not arch:
        cluster.stop_or_kill(name)
        [successor] = wait_active(cluster, but=name)
        cluster.start(name)
        name = successor
    cluster.wait_healthy()
    return name


def tell(cluster: Cluster, target: str, *words: str) -> Any:
    """Send a metadata server a command; returns its answer. target: a daemon's name, or `mds.lab:0` for a rank."""
    return json.loads(cluster.tool(cluster.client.host.name, "ceph", "tell", target, *words, "--format=json"))


def requests(cluster: Cluster, name: str) -> int:
    """Client requests that a metadata server has handled since it started."""
    return int(tell(cluster, name, "perf", "dump")["mds_server"]["handle_client_request"])


def rank(number: int) -> str:
    """A rank of the lab's file system, as `tell` takes it."""
    return f"mds.{FILE_SYSTEM}:{number}"
