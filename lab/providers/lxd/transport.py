"""Connections to an LXD: requests and websockets, over its Unix socket or over TLS with a pinned certificate."""

import hashlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import requests
import requests.adapters
import urllib3
import urllib3.connection
import websocket

_POOL = 32  # calls at once: every node's daemons start in parallel
_CONNECT_S = 10.0


@dataclass(frozen=True)
class Address:
    """Where an LXD listens: `unix:///path` or `https://host:port`.

    certificate, key: this client's; server: the certificate that LXD must present. PEM files, for https only.
    """

    url: str
    certificate: Path | None = None
    key: Path | None = None
    server: Path | None = None

    @property
    def socket(self) -> Path | None:
        return Path(self.url.removeprefix("unix://")) if self.url.startswith("unix://") else None

    @property
    def host(self) -> str:
        """Name or address of the machine; empty for a socket on this one."""
        return urlparse(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlparse(self.url).port or 8443


def session(address: Address) -> requests.Session:
    """A session for pylxd, whose own adapter keeps a pool per path and closes pools that other threads use."""
    opened = requests.Session()
    opened.trust_env = False  # ignores this machine's proxy settings
    if address.socket is not None:
        opened.mount("http+unix://", _UnixAdapter(address.socket))
        return opened
    opened.cert = (str(address.certificate), str(address.key))
    opened.mount("https://", _PinnedAdapter(_fingerprint(address)))
    return opened


def open_websocket(address: Address, path: str) -> websocket.WebSocket:
    """A websocket at a path of the LXD; OSError or WebSocketException when it cannot be opened."""
    scheme = "wss" if address.socket is None else "ws"
    raw = _socket(address)
    try:
        opened: websocket.WebSocket = websocket.create_connection(
            f"{scheme}://{address.host or 'lxd'}{path}",
            socket=raw,
            suppress_origin=True,  # LXD treats a client with an origin as a browser
            timeout=_CONNECT_S,
            skip_utf8_validation=True,
        )
    except BaseException:
        raw.close()
        raise
    opened.settimeout(None)
    return opened


def _socket(address: Address) -> socket.socket:
    if address.socket is not None:
        plain = socket.socket(socket.AF_UNIX)
        try:
            plain.connect(str(address.socket))
        except BaseException:
            plain.close()
            raise
        return plain
    plain = socket.create_connection((address.host, address.port), timeout=_CONNECT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # no authority signs an LXD's certificate, so it is compared below
    context.load_cert_chain(str(address.certificate), str(address.key))
    wrapped = context.wrap_socket(plain)
    certificate = wrapped.getpeercert(binary_form=True) or b""
    if hashlib.sha256(certificate).hexdigest() != _fingerprint(address):
        wrapped.close()
        raise OSError(f"{address.url} presents a different certificate from {address.server}")
    return wrapped


def _fingerprint(address: Address) -> str:
    """SHA-256 of the certificate that the server must present."""
    if address.server is None:
        raise OSError(f"no certificate of {address.url} is known")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(address.server.read_text())).hexdigest()


class _UnixConnection(urllib3.connection.HTTPConnection):
    def __init__(self, path: Path, **_options: Any) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


class _UnixPool(urllib3.HTTPConnectionPool):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", maxsize=_POOL)
        self._path = path

    def _new_conn(self) -> _UnixConnection:
        return _UnixConnection(self._path)


class _UnixAdapter(requests.adapters.HTTPAdapter):
    """Uses the one socket for every URL."""

    def __init__(self, path: Path) -> None:
        self._pool = _UnixPool(path)
        super().__init__()

    def get_connection_with_tls_context(self, *_arguments: Any, **_options: Any) -> _UnixPool:
        return self._pool

    def request_url(self, request: requests.PreparedRequest, _proxies: object) -> str:
        return request.path_url

    def close(self) -> None:
        self._pool.close()


class _PinnedAdapter(requests.adapters.HTTPAdapter):
    """Accepts one certificate and no other."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint_wanted = fingerprint
        super().__init__(pool_maxsize=_POOL)

    def cert_verify(self, conn: Any, url: str, _verify: object, cert: Any) -> None:
        conn.assert_fingerprint = self._fingerprint_wanted
        super().cert_verify(conn, url, False, cert)  # type: ignore[no-untyped-call]
