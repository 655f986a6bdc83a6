"""The S3 endpoints of a cluster: gateways and load balancers of its spec, and gateways that run only for a block."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import parse_json, read_text
from cephlab.lab.base.redaction import remember
from cephlab.lab.base.runs import write_private
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, add_service, own, remove_service
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.providers.host import Host, HostProcess
from cephlab.lab.services import service_of
from cephlab.lab.services.haproxy import HAPROXY
from cephlab.lab.services.rgw import CERTIFICATE, PORT, RGW, TLS_ABOVE

DATA_POOL = "default.rgw.buckets.data"
INDEX_POOL = "default.rgw.buckets.index"

USER = "cephlab"
S3_FILE = "s3.json"
"""Name of the file with the S3 endpoints and keys, beside the ceph.conf for programs of this machine."""

_OURS = ("default.rgw.", ".rgw.root")
_START_S = 90.0
_PGS = 16


@dataclass(frozen=True)
class Gateway:
    """A running gateway, or a load balancer in front of gateways, and a user who may make buckets."""

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
        """The process whose resource use counts as the gateway's cost."""
        return self.daemon.process

    @property
    def socket(self) -> PurePosixPath:
        """Its admin socket on the host."""
        return conf.socket_path(self.host, self.name)

    @property
    def address(self) -> str:
        """`ADDRESS:PORT`, as other hosts reach it."""
        return f"{self.host.address}:{self.port}"

    @property
    def tls_address(self) -> str:
        """As `address`, with TLS."""
        return f"{self.host.address}:{self.port + TLS_ABOVE}"

    @property
    def certificate(self) -> str:
        """The certificate that a TLS client must trust, as PEM."""
        return self.host.read(service_of(self.name).data(self.host, self.daemon.id) / CERTIFICATE).decode()


@dataclass(frozen=True)
class Endpoint:
    """An S3 service that somebody else runs: `ADDRESS:PORT`, plain HTTP, and a user who may make buckets."""

    address: str
    access_key: str
    secret_key: str = field(repr=False)


def load_keys(path: Path) -> tuple[str, str]:
    """A user's keys from JSON with access_key and secret_key, e.g. `client/s3.json`; SpecError if one is missing."""
    raw = parse_json(read_text(path, "see client/s3.json"), path, "see client/s3.json")
    known = raw if isinstance(raw, dict) else {}
    access, secret = known.get("access_key"), known.get("secret_key")
    if not (isinstance(access, str) and isinstance(secret, str) and access.strip() and secret.strip()):
        wanted = "wanted: JSON with access_key and secret_key, each a text"
        raise SpecError(f"{path} has no S3 keys", wanted, "see client/s3.json")
    remember(access, secret)
    return access, secret


def speaking_s3(cluster: Cluster, kind: str = RGW.kind) -> list[Gateway]:
    """Every running gateway of a cluster, in the order of their names; with kind `haproxy`: every load balancer.

    They share one user, which the first call makes.
    """
    daemons = [daemon for _, daemon in sorted(cluster.daemons.items()) if daemon.kind == kind and daemon.alive()]
    if not daemons:
        return []
    keys = _user(cluster, cluster.client.host.name)
    service = service_of(daemons[0].name)
    access, secret = keys["access_key"], keys["secret_key"]
    return [Gateway(daemon, access, secret, service.listens(daemon.id)) for daemon in daemons]


def write_s3_file(cluster: OwnCluster) -> Path | None:
    """Write what an S3 client on this machine needs, readable only by its owner. None if the cluster has no gateway.

    JSON: {endpoints, balancers: {name: {http, https, certificate}}, access_key, secret_key}.
    """
    gateways, balancers = speaking_s3(cluster), speaking_s3(cluster, HAPROXY.kind)
    if not gateways:
        return None
    first = gateways[0]
    path = cluster.client_files[0].with_name(S3_FILE)
    content = {
        "endpoints": {gateway.name: _urls(gateway) for gateway in gateways},
        "balancers": {balancer.name: _urls(balancer) for balancer in balancers},
        "access_key": first.access_key,
        "secret_key": first.secret_key,
    }
    write_private(path, json.dumps(content, indent=2).encode() + b"\n")
    return path


def _urls(gateway: Gateway) -> dict[str, str]:
    plain, tls = f"http://{gateway.address}", f"https://{gateway.tls_address}"
    return {"http": plain, "https": tls, "certificate": gateway.certificate}


@contextmanager
def gateway(cluster: Cluster, node: str, data: PoolKind, *, pg_num: int = _PGS) -> Iterator[Gateway]:
    """Run a gateway on a node, with its objects in a pool of this kind. Everything is removed afterwards.

    Raises DaemonDied, with the last log lines, if the gateway ends; NotReached if it never answers.
    """
    with ExitStack() as undo:
        yield _begin(own(cluster), node, data, pg_num, undo)


def lasting_gateway(cluster: Cluster, node: str, data: PoolKind) -> Gateway:
    """Run a gateway until the cluster is removed. If it does not answer, everything is removed at once."""
    with ExitStack() as undo:
        lasting = _begin(own(cluster), node, data, _PGS, undo)
        undo.pop_all()
    return lasting


def _begin(cluster: OwnCluster, node: str, data: PoolKind, pg_num: int, undo: ExitStack) -> Gateway:
    """Start a gateway. undo: gets the callbacks that remove it."""
    undo.callback(_remove_pools, cluster)
    pools.create(cluster, INDEX_POOL, PoolKind("replicated", min(3, data.size)), pg_num=pg_num)
    pools.create(cluster, DATA_POOL, data, pg_num=pg_num)
    daemon = _started(cluster, node, undo)
    keys = _user(cluster, node)
    return Gateway(daemon, keys["access_key"], keys["secret_key"])


def _started(cluster: OwnCluster, node: str, undo: ExitStack) -> Daemon:
    """Start a gateway and wait until it answers."""
    daemon = add_service(cluster, node, RGW.kind)
    undo.callback(remove_service, cluster, daemon.name)
    clock.wait(
        partial(_missing, cluster, daemon),
        lambda missing: not missing,
        what=f"an answer from {daemon.name}",
        timeout_s=_START_S * cluster.patience,
        interval_s=0.5,
    )
    return daemon


def _missing(cluster: Cluster, daemon: Daemon) -> str:
    daemon.check()
    return RGW.missing(cluster.client, daemon.host, daemon.id)


def user_keys(cluster: Cluster, name: str, email: str = "") -> dict[str, str]:
    """{access_key, secret_key} of another user, `TENANT$NAME` in a tenant, which the first call makes."""
    return _user(cluster, cluster.client.host.name, name, email)


def _user(cluster: Cluster, node: str, name: str = USER, email: str = "") -> dict[str, str]:
    """Keys of a user, by default the lab's. radosgw-admin chooses them, so that no command line shows a secret."""
    if name in cluster.s3_users:
        return cluster.s3_users[name]
    known = json.loads(cluster.tool(node, "radosgw-admin", "user", "list", "--format", "json"))
    argv = ["user", "info" if name in known else "create", "--uid", name, "--format", "json"]
    argv += [] if name in known else ["--display-name", name, *(["--email", email] if email else [])]
    keys: dict[str, str] = json.loads(cluster.tool(node, "radosgw-admin", *argv))["keys"][0]
    remember(keys["access_key"], keys["secret_key"])
    cluster.s3_users[name] = keys
    return keys


def emptied(cluster: Cluster, node: str) -> None:
    """Remove the data of all objects. Buckets still list the objects, but they cannot be read."""
    cluster.tool(node, "rados", "purge", DATA_POOL, "--yes-i-really-really-mean-it")


def _remove_pools(cluster: Cluster) -> None:
    """Remove the pools of gateways, and with them their users."""
    cluster.s3_users.clear()
    for name in cluster.client.mon("osd pool ls"):
        if name.startswith(_OURS):
            pools.delete(cluster, name)
