"""Runs a RADOS gateway in a cluster, with its own user and pools."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.redaction import remember
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, add_service, own, remove_service
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.providers.host import Host, HostProcess
from cephlab.lab.services.rgw import PORT, RGW

DATA_POOL = "default.rgw.buckets.data"
INDEX_POOL = "default.rgw.buckets.index"

_OURS = ("default.rgw.", ".rgw.root")
_START_S = 90.0


@dataclass(frozen=True)
class Gateway:
    """A running gateway and its user."""

    daemon: Daemon
    access_key: str
    secret_key: str = field(repr=False)
    port: int = PORT

    @property
    def name(self) -> str:
        return self.daemon.name

    @property
    def host(self) -> Host:
        return self.daemon.host

    @property
    def process(self) -> HostProcess | None:
        """What its cost is accounted to."""
        return self.daemon.process

    @property
    def socket(self) -> PurePosixPath:
        """Its admin socket on the host."""
        return conf.socket_path(self.host, self.name)

    @property
    def address(self) -> str:
        """`ADDRESS:PORT`, as other hosts reach it."""
        return f"{self.host.address}:{self.port}"


@contextmanager
def gateway(cluster: Cluster, node: str, data: PoolKind, *, pg_num: int = 16) -> Iterator[Gateway]:
    """Run a gateway on a node, with its objects in a pool of that kind. Everything is removed afterwards.

    Raises DaemonDied, with the last log lines, if the gateway ends; NotReached if it never answers.
    """
    with ExitStack() as undo:
        yield _begin(own(cluster), node, data, pg_num, undo)


def lasting_gateway(cluster: Cluster, node: str, data: PoolKind, *, pg_num: int = 16) -> Gateway:
    """Run a gateway until the cluster is removed. If it does not answer, everything is removed at once."""
    with ExitStack() as undo:
        lasting = _begin(own(cluster), node, data, pg_num, undo)
        undo.pop_all()
    return lasting


def _begin(cluster: OwnCluster, node: str, data: PoolKind, pg_num: int, undo: ExitStack) -> Gateway:
    """Start a gateway. undo: gets the callbacks that remove it."""
    undo.callback(_remove_pools, cluster)
    pools.create(cluster, INDEX_POOL, PoolKind("replicated", min(3, data.size)), pg_num=pg_num)
    pools.create(cluster, DATA_POOL, data, pg_num=pg_num)
    daemon = add_service(cluster, node, RGW.kind)
    undo.callback(remove_service, cluster, daemon.name)
    clock.wait(
        partial(_missing, cluster, daemon),
        lambda missing: not missing,
        what=f"an answer of {daemon.name}",
        timeout_s=_START_S * cluster.patience,
        interval_s=0.5,
    )
    keys = _user(cluster, node)
    return Gateway(daemon, keys["access_key"], keys["secret_key"])


def _missing(cluster: Cluster, daemon: Daemon) -> str:
    daemon.check()
    return RGW.missing(cluster.client, daemon.host, daemon.id)


def _user(cluster: Cluster, node: str) -> dict[str, str]:
    """A user. The gateway's own tool chooses the keys, so that no command line shows a secret."""
    argv = ("user", "create", "--uid", "cephlab", "--display-name", "cephlab", "--format", "json")
    keys: dict[str, str] = json.loads(cluster.tool(node, "radosgw-admin", *argv))["keys"][0]
    remember(keys["access_key"], keys["secret_key"])
    return keys


def emptied(cluster: Cluster, node: str) -> None:
    """Remove the data of all objects. Buckets still list them, but they cannot be read."""
    cluster.tool(node, "rados", "purge", DATA_POOL, "--yes-i-really-really-mean-it")


def _remove_pools(cluster: Cluster) -> None:
    for name in cluster.client.mon("osd pool ls"):
        if name.startswith(_OURS):
            pools.delete(cluster, name)
