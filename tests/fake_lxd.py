"""An LXD on a Unix socket as far as its API is asked here: things by path, changed by POST and DELETE."""

import json
import platform
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

EXTENSIONS = ["projects", "instances", "storage_api_project"]


def server_info(**environment: Any) -> dict[str, Any]:
    """What `GET /1.0` answers of an LXD on this machine."""
    environment_here = {
        "kernel_architecture": platform.machine(),
        "kernel_version": platform.release(),
        "server_name": socket.gethostname(),
        "server_version": "5.0.2",
        "server_clustered": False,
    }
    return {"auth": "trusted", "api_extensions": EXTENSIONS, "environment": {**environment_here, **environment}}


@dataclass
class FakeLxd:
    """things: (project, path below /1.0) -> its value. requests: method and path, in order, of all that changes.

    sent: path and body of each of those. answers: what a change at a path answers, in place of nothing.
    refuse: paths that are not to be changed; refusal: what is said then. busy: how often a path still answers that it
    is. gone: how often a file
    call still finds its helper leaving.
    """

    info: dict[str, Any] = field(default_factory=server_info)
    things: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    refuse: set[str] = field(default_factory=set)
    refusal: str = "refused"
    busy: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, project: str = "default", **value: Any) -> None:
        self.things[project, path] = {"name": path.rpartition("/")[2], **value}

    def answer(self, method: str, project: str, path: str, *, whole: bool) -> tuple[int, Any]:
        if self.gone.get(path, 0):
            self.gone[path] -= 1
            return 500, "read unix @->/proc/self/fd/9/forkfile.sock: read: connection reset by peer"
        if method == "GET":
            return self._get(project, path, whole=whole)
        self.requests.append(f"{method} {path}")
        if path in self.refuse:
            return 500, self.refusal
        if self.busy.get(path, 0):
            self.busy[path] -= 1
            return 500, 'Instance is busy running a "create" operation'
        if method == "DELETE" and self.things.pop((project, path), None) is None:
            return 404, "not found"
        return 200, self.answers.get(path, {})

    def orders(self, path: str) -> list[Any]:
        """The bodies that came to a path, which are JSON."""
        return [json.loads(body) for to, body in self.sent if to == path]

    def _get(self, project: str, path: str, *, whole: bool) -> tuple[int, Any]:
        if path == "":
            return 200, self.info
        if (project, path) in self.things:
            return 200, self.things[project, path]
        below = [(p, v) for (of, p), v in self.things.items() if of == project and p.rpartition("/")[0] == path]
        return 200, [value if whole else f"/1.0/{p}" for p, value in below]


def _body(request: BaseHTTPRequestHandler) -> bytes:
    """What came with a request, whole or in chunks."""
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    body = b""
    while size := int(request.rfile.readline(), 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return body


def _handler(lxd: FakeLxd) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = _body(self)
            asked = urlparse(self.path)
            query = parse_qs(asked.query)
            path = asked.path.removeprefix("/1.0").strip("/")
            if self.command != "GET":
                lxd.sent.append((path, body))
            project = query.get("project", ["default"])[0]
            code, value = lxd.answer(self.command, project, path, whole=query.get("recursion") == ["1"])
            kind = "sync" if code == 200 else "error"
            answer = json.dumps({"type": kind, "metadata": value, "error": value if kind == "error" else ""}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def do_DELETE(self) -> None:
            self._serve()

        def log_message(self, *_args: object) -> None:
            """Nothing."""

    return Handler


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def get_request(self) -> tuple[Any, Any]:
        connection, _ = super().get_request()
        return connection, ("client", 0)


@contextmanager
def serving(lxd: FakeLxd, path: Path) -> Iterator[str]:
    """Have it answer on a socket; gives its endpoint."""
    with _Server(str(path), _handler(lxd)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()
