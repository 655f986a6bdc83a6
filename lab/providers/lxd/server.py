"""The LXD that a lab runs on: its address, whether it answers, what it can do, and its instances."""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pylxd
import pylxd.exceptions
import requests
import websocket

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import LabBroken, LabError, Unavailable
from cephlab.lab.base.given import user_path
from cephlab.lab.providers.base import Silent, nobody_listens
from cephlab.lab.providers.blockdevices import BlockDevices
from cephlab.lab.providers.engine.answers import NotThere, refuse_socket
from cephlab.lab.providers.lxd import transport
from cephlab.lab.providers.lxd.transport import Address
from cephlab.lab.spec.arch import Arch, parse_arch

T = TypeVar("T")

SERVERS_VARIABLE = "CEPHLAB_LXD"
"""Environment variable with the machines to use: `unix:///path/unix.socket` or `https://host:8443`, comma-separated."""

_PATIENCE_S = 3.0
_CALL_TIMEOUT_S = 300
_START_IT = (
    "install and start one (as root: apt-get install lxd, then ci/lxd or lxd init), or use --lab container or local"
)
_SNAP_SOCKET = Path("/var/snap/lxd/common/lxd/unix.socket")
_DEBIAN_SOCKET = Path("/var/lib/lxd/unix.socket")
_CLIENT_FOLDERS = ("~/snap/lxd/common/config", "~/.config/lxc")
_CLIENT_VARIABLE = "LXD_CONF"
"""lxc's own variable for the folder with its certificates and remotes."""
RUNNING = 103
_SUCCESS = 200
"""Status codes of LXD's API."""
_RETRY_S = 0.1
_ERRORS = (
    pylxd.exceptions.LXDAPIException,
    pylxd.exceptions.ClientConnectionFailed,
    requests.exceptions.RequestException,
    websocket.WebSocketException,
    OSError,
)
_EXTENSIONS = ("projects", "instances", "storage_api_project")
_ON_BLOCK_DEVICE = {"dir", "btrfs", "lvm"}
"""Storage drivers whose volumes are on a block device that the kernel can limit."""


def addresses(environment: Mapping[str, str]) -> list[Address]:
    """The machines that CEPHLAB_LXD names; else a socket here: LXD_DIR's if that is set, the snap's, or Debian's."""
    chosen = [part.strip() for part in environment.get(SERVERS_VARIABLE, "").split(",") if part.strip()]
    if chosen:
        return [address_of(url) for url in chosen]
    folder = environment.get("LXD_DIR")
    if folder:
        return [Address(f"unix://{folder}/unix.socket")]
    sockets = [path for path in (_SNAP_SOCKET, _DEBIAN_SOCKET) if path.exists()]
    return [Address(f"unix://{path}") for path in sockets[:1] or [_DEBIAN_SOCKET]]


def address_of(url: str) -> Address:
    """An endpoint with the certificates that `lxc remote add` stored for it; Unavailable without them."""
    if url.startswith("unix:///"):
        return Address(url)
    remote = Address(url)
    if not url.startswith("https://") or not remote.host:
        raise Unavailable(
            f"{SERVERS_VARIABLE}: {url!r} is not an LXD", "wanted: unix:///path/unix.socket or https://host:8443"
        )
    chosen = os.environ.get(_CLIENT_VARIABLE)
    folders = (chosen,) if chosen else _CLIENT_FOLDERS
    for folder in map(user_path, folders):
        certificate, key = folder / "client.crt", folder / "client.key"
        server = folder / "servercerts" / f"{remote.host}.crt"
        if certificate.exists() and key.exists() and server.exists():
            return Address(url, certificate, key, server)
    raise Unavailable(
        f"{url} is not known to this user's lxc",
        f"no client.crt, client.key and servercerts/{remote.host}.crt in {' or '.join(folders)}",
        f"lxc remote add {remote.host} {url}",
    )


def find_servers(environment: Mapping[str, str] = os.environ) -> list[Server]:
    """The LXD of every machine to use, in the given order; Unavailable when any of them does not answer."""
    servers: list[Server] = []
    with ExitStack() as after_failure:
        for address in addresses(environment):
            servers.append(connect(address))
            after_failure.callback(servers[-1].close)
        after_failure.pop_all()
    return servers


def connect(address: Address, *, patience_s: float = _PATIENCE_S) -> Server:
    """The LXD at an address. Unavailable when it is absent, forbidden, unsuitable or not set up; Silent otherwise."""
    if address.socket is not None:
        refuse_socket(address.socket, "LXD", "no LXD is running", group="lxd", start_it=_START_IT)
    try:
        client = _client(address, None, patience_s)
    except (*_ERRORS, LabError) as error:
        kind = Unavailable if nobody_listens(error) else Silent
        raise kind(f"the LXD at {address.url} does not answer", str(error), _START_IT) from error
    server = Server(address, dict(client.host_info))
    client.api.session.close()
    try:
        reason = server.obstacle()
    except LabError as error:
        reason = Silent(error.what, error.detail, error.hint)
    if reason is not None:
        server.close()
        raise reason
    return server


def _client(address: Address, project: str | None, timeout_s: float) -> Any:
    url = address.url if address.socket is None else f"http+unix://{quote(str(address.socket), safe='')}"
    return pylxd.Client(endpoint=url, session=transport.session(address), timeout=timeout_s, project=project)


@contextmanager
def lxd_errors(doing: str) -> Iterator[None]:
    """Turn errors of pylxd and of connections into LabBroken, or NotThere, with what was being done."""
    try:
        yield
    except _ERRORS as error:
        kind = NotThere if _status(error) == 404 else LabBroken
        raise kind(f"LXD failed while {doing}", str(error)) from error


def status_of(error: LabBroken) -> int | None:
    """The HTTP status behind an error of `lxd_errors`; None if LXD did not answer."""
    return _status(error.__cause__)


def _status(error: BaseException | None) -> int | None:
    response = getattr(error, "response", None)
    return None if response is None else int(response.status_code)


def repeat_while(refusal: str, call: Callable[[], T], *, what: str, timeout_s: float) -> T:
    """Call again while LXD refuses with these words. LabBroken when it still does so after timeout_s."""
    deadline = Deadline.after(timeout_s)
    while True:
        last = deadline.passed()
        try:
            return call()
        except LabBroken as error:
            if refusal not in error.detail:
                raise
            if last:
                raise LabBroken(f"LXD kept failing for {timeout_s:g} s while {what}", error.detail) from error
        deadline.pause(_RETRY_S)


class Server:
    """The LXD of one machine, which answered. Threads may share it."""

    def __init__(self, address: Address, info: dict[str, Any]) -> None:
        self.address = address
        self.info = info
        self._clients: dict[str | None, Any] = {}
        self._lock = threading.Lock()

    def api(self, project: str | None = None) -> Any:
        """The root of pylxd's tree of calls, for one project."""
        with self._lock:
            if project not in self._clients:
                with lxd_errors("connecting"):
                    self._clients[project] = _client(self.address, project, _CALL_TIMEOUT_S)
            return self._clients[project].api

    def get(self, doing: str, node: Any, **options: Any) -> Any:
        """The answer to a GET in pylxd's tree of calls, without its envelope."""
        with lxd_errors(doing):
            return node.get(**options).json()["metadata"]

    def wait(self, doing: str, response: Any) -> dict[str, Any]:
        """Wait for the operation that a call started, if any; LabBroken when it failed."""
        answer = response.json()
        if answer.get("type") != "async":
            return dict(answer.get("metadata") or {})
        return self.wait_for(doing, str(answer["operation"]).rpartition("/")[2].partition("?")[0])

    def wait_for(self, doing: str, operation: str) -> dict[str, Any]:
        with lxd_errors(doing):
            ended = self.api().operations[operation].wait.get().json()["metadata"]
        if ended["status_code"] != _SUCCESS:
            raise LabBroken(f"LXD failed while {doing}", str(ended.get("err") or ended["status"]))
        return dict(ended)

    def websocket(self, path: str) -> websocket.WebSocket:
        return transport.open_websocket(self.address, path)

    @property
    def environment(self) -> dict[str, Any]:
        return dict(self.info["environment"])

    @property
    def arch(self) -> Arch:
        return parse_arch(str(self.environment["kernel_architecture"]))

    @property
    def local(self) -> bool:
        """Whether it runs on this kernel, so that its processes are in our /proc."""
        return (
            self.address.socket is not None
            and self.environment.get("kernel_version") == platform.release()
            and self.environment.get("server_name") == socket.gethostname()
        )

    @property
    def sees_processes(self) -> bool:
        """Whether processes in its instances can be found from here; only root may look into them."""
        return self.local and os.geteuid() == 0

    def limits_disks(self) -> bool:
        """Whether the kernel can limit the block device below the storage pool."""
        pool = self.get("inspecting its storage", self.api().storage_pools[self.pool])
        source = Path(str(pool["config"].get("source") or "/"))
        return pool["driver"] in _ON_BLOCK_DEVICE and self.sees_processes and BlockDevices().limits(source)

    @cached_property
    def pool(self) -> str:
        """The storage pool for instances and disks: the default profile's, else the first."""
        profile = self.get("inspecting its default profile", self.api().profiles["default"])
        roots = [device for device in profile["devices"].values() if device.get("path") == "/" and device.get("pool")]
        if roots:
            return str(roots[0]["pool"])
        pools = [str(path).rpartition("/")[2] for path in self.get("listing its storage", self.api().storage_pools)]
        return pools[0] if pools else ""

    def resources(self) -> dict[str, Any]:
        """{cpu: {total}, memory: {total, used}}, in bytes, now."""
        return dict(self.get("asking for its resources", self.api().resources))

    def obstacle(self) -> Unavailable | None:
        """Why a lab cannot use it, or None."""
        url = self.address.url
        if self.info.get("auth") != "trusted":
            what = f"the LXD at {url} does not trust this user"
            return Unavailable(what, hint="run `lxc remote add` with a token from it")
        lacking = [name for name in _EXTENSIONS if name not in self.info["api_extensions"]]
        if lacking:
            version = self.environment.get("server_version")
            what, detail = f"the LXD at {url} is too old", f"{version} has no {', '.join(lacking)}"
            return Unavailable(what, detail, "use LXD 5.0 or later")
        if self.environment.get("server_clustered"):
            return Unavailable(
                f"the LXD at {url} is a member of a cluster, and a lab cannot span a cluster",
                "a run's bridge network does not reach from one member to another",
                f"use LXDs that are not clustered; {SERVERS_VARIABLE} may name several",
            )
        if not self.pool:
            return Unavailable(f"the LXD at {url} is not set up: it has no storage pool", hint="ci/lxd, or `lxd init`")
        return None

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.api.session.close()
            self._clients.clear()


@dataclass(frozen=True)
class InstanceRef:
    """An instance by its project and name. node: for messages; own_kernel: it is a virtual machine."""

    server: Server
    project: str
    instance: str
    node: str
    own_kernel: bool = False

    @property
    def sees_processes(self) -> bool:
        return self.server.sees_processes and not self.own_kernel

    @property
    def api(self) -> Any:
        return self.server.api(self.project).instances[self.instance]
