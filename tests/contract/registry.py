"""A registry on the loopback interface: one image of several architectures, served from the archives of ours."""

import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class _Blob:
    archive: Path
    offset: int
    size: int


class _Content:
    """What is served: blobs by digest, and one index that lists every archive's manifest."""

    def __init__(self, archives: Sequence[Path]) -> None:
        self.blobs: dict[str, _Blob] = {}
        self.types: dict[str, str] = {}
        manifests: list[dict[str, Any]] = []
        for archive in archives:
            with tarfile.open(archive) as opened:
                for member in opened:
                    digest = f"sha256:{Path(member.name).name}"
                    self.blobs[digest] = _Blob(archive, member.offset_data, member.size)
                index = opened.extractfile("index.json")
                assert index is not None
                manifests += json.load(index)["manifests"]
        self.types = {entry["digest"]: entry["mediaType"] for entry in manifests}
        self.index = json.dumps({"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": manifests}).encode()
        self.index_digest = f"sha256:{hashlib.sha256(self.index).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    """The reading half of the OCI distribution specification, https://github.com/opencontainers/distribution-spec."""

    protocol_version = "HTTP/1.1"
    content: _Content

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_args: object) -> None:
        """Nothing: the test's own output is enough."""

    def _answer(self, *, body: bool) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if self.path == "/v2/":
            self._head("application/json", 2, "")
            self.wfile.write(b"{}")
        elif "/manifests/" in self.path and name not in self.content.types:
            self._head(_INDEX_TYPE, len(self.content.index), self.content.index_digest)
            if body:
                self.wfile.write(self.content.index)
        elif name in self.content.blobs:
            blob = self.content.blobs[name]
            self._head(self.content.types.get(name, "application/octet-stream"), blob.size, name)
            if body:
                self._send(blob)
        else:
            self.send_error(404)

    def _head(self, media_type: str, size: int, digest: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(size))
        self.send_header("Docker-Content-Digest", digest)
        self.end_headers()

    def _send(self, blob: _Blob) -> None:
        with blob.archive.open("rb") as source:
            source.seek(blob.offset)
            left = blob.size
            while left:
                piece = source.read(min(left, _CHUNK_BYTES))
                self.wfile.write(piece)
                left -= len(piece)


@contextmanager
def registry(archives: Sequence[Path], name: str) -> Iterator[str]:
    """Serve the archives as one image; gives its reference."""
    handler = type("Handler", (_Handler,), {"content": _Content(archives)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}/{name}:test"
        finally:
            server.shutdown()
            thread.join()
