"""A RADOS gateway on a host of a cluster, for the length of a block: started, with a user and pools of its own."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from lab import clock, pools
from lab.ceph import conf
from lab.ceph.keyring import Entity, render
from lab.cluster import Cluster
from lab.errors import CephTrouble
from lab.host import Host, HostProcess
from lab.pools import PoolKind

PORT = 7480
"""The gateway's own default (rgw_frontends)."""
DATA_POOL = "default.rgw.buckets.data"
INDEX_POOL = "default.rgw.buckets.index"
CAPS = {"mon": "allow rw", "mgr": "allow rw", "osd": "allow rwx"}
"""What Ceph's documentation of a gateway's manual installation gives it."""

_OURS = ("default.rgw.", ".rgw.root")
_START_S = 90.0
_STOP_S = 15.0


@dataclass(frozen=True)
class Gateway:
    """A gateway that answers. process: what its cost is accounted to; socket: its admin socket on the host."""

    host: Host
    process: HostProcess
    socket: PurePosixPath
    access_key: str
    secret_key: str = field(repr=False)
    port: int = PORT

    @property
    def name(self) -> str:
        """As Ceph's tools call it."""
        return f"rgw.{self.host.name}"

    @property
    def address(self) -> str:
        """`ADDRESS:PORT`, as other hosts reach it."""
        return f"{self.host.address}:{self.port}"


@contextmanager
def gateway(cluster: Cluster, node: str, data: PoolKind, *, pg_num: int = 16) -> Iterator[Gateway]:
    """Run a gateway on a node, its objects in a pool of that kind; all of it is removed afterwards.

    Raises CephTrouble, with the gateway's last words, when it does not come to answer.
    """
    host = cluster.hosts[node]
    base = host.directory / "rgw"
    with ExitStack() as undo:
        undo.callback(_remove_pools, cluster)
        pools.create(cluster, INDEX_POOL, PoolKind("replicated", min(3, data.size)), pg_num=pg_num)
        pools.create(cluster, DATA_POOL, data, pg_num=pg_num)
        undo.callback(host.remove, base)
        entity = _authorised(cluster, node)
        undo.callback(cluster.client.mon, "auth del", entity=entity.name)
        process, socket = _start(host, base, entity)
        undo.callback(_stop, process)
        _wait(cluster, host, process, base / "words")
        keys = _user(cluster, node)
        yield Gateway(host, process, socket, keys["access_key"], keys["secret_key"])


def _authorised(cluster: Cluster, node: str) -> Entity:
    name = f"client.rgw.{node}"
    given = [part for pair in CAPS.items() for part in pair]
    made = cluster.client.mon("auth get-or-create", entity=name, caps=given)
    return Entity(name, made[0]["key"], CAPS)


def _start(host: Host, base: PurePosixPath, entity: Entity) -> tuple[HostProcess, PurePosixPath]:
    host.remove(base)
    host.make_directory(base / "data")
    keyring, own, socket = base / "keyring", base / "ceph.conf", base / "s"
    host.push(render([entity]), keyring, mode=0o600)
    options = {
        "keyring": str(keyring),
        "admin_socket": str(socket),
        "log_file": str(base / "log"),
        "rgw_data": str(base / "data"),
        "rgw_frontends": f"beast endpoint={host.address}:{PORT}",
    }
    lines = [f"[{entity.name}]", *(f"{key} = {value}" for key, value in options.items())]
    host.push(host.read(conf.conf_path(host)) + ("\n".join(lines) + "\n").encode(), own)
    return host.spawn(["radosgw", "-f", "-n", entity.name, "-c", str(own)], log=base / "words"), socket


def _wait(cluster: Cluster, host: Host, process: HostProcess, words: PurePosixPath) -> None:
    """Until it answers HTTP, whatever it answers."""
    ask = f"import urllib.request as u; u.urlopen('http://{host.address}:{PORT}', timeout=5).read()"

    def answers() -> bool:
        if not process.alive():
            raise CephTrouble(f"the gateway on {host.name} ended", host.read(words).decode(errors="replace")[-2000:])
        return host.run(["python3", "-c", ask], timeout_s=30 * cluster.patience, check=False).code == 0

    clock.wait(
        answers,
        bool,
        what=f"an answer of the gateway on {host.name}",
        timeout_s=_START_S * cluster.patience,
        interval_s=0.5,
    )


def _user(cluster: Cluster, node: str) -> dict[str, str]:
    """A user with keys that the gateway's own tool makes up, so that no secret is on a command line."""
    argv = ("user", "create", "--uid", "cephlab", "--display-name", "cephlab", "--format", "json")
    found: dict[str, str] = json.loads(cluster.tool(node, "radosgw-admin", *argv))["keys"][0]
    return found


def _stop(process: HostProcess) -> None:
    process.signal(signal.SIGTERM)
    if not process.wait(_STOP_S):
        process.signal(signal.SIGKILL)
        process.wait(_STOP_S)


def emptied(cluster: Cluster, node: str) -> None:
    """Throw away what all objects hold, but not their names: buckets list them as before and cannot give them."""
    cluster.tool(node, "rados", "purge", DATA_POOL, "--yes-i-really-really-mean-it")


def _remove_pools(cluster: Cluster) -> None:
    for name in cluster.client.mon("osd pool ls"):
        if name.startswith(_OURS):
            pools.delete(cluster, name)
