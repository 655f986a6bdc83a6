"""A gateway that drops a part of an upload, and one that answers with an old version: the s3 suite goes red."""

import hashlib
import http.client
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL, speaking_s3
from cephlab.lab.history.history import History
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import verdict_of
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.rgw import RGW
from cephlab.lab.spec.arch import Arch
from cephlab.lab.workloads import s3load
from cephlab.lab.workloads.s3_load_program import FILL, FINAL
from cephlab.lab.workloads.s3_program import signed
from cephlab.lab.workloads.s3load import S3Load
from cephlab.suites.object.stand import truthful
from cephlab.suites.s3 import multipart, objects
from cephlab.suites.s3.stand import Case, Entrance, Keys, Ways, owner, record, tried
from tests.contract.raising import raised

pytestmark = pytest.mark.real

ONE = Topology(native=2, foreign=0, services=(("n0", (RGW.kind,)),))
_KEPT, _META = ("range", "content-type"), "x-amz-meta-"
_OF_THE_LINE = ("content-length", "connection", "transfer-encoding")
PART = re.compile(rb"<Part>(?:(?!</Part>).)*<PartNumber>2</PartNumber>.*?</Part>", re.DOTALL)


@dataclass
class Liar:
    """What stands between: it passes requests on, signed anew, and lies where it was told to."""

    address: str
    keys: Keys
    drops: bool = False
    stale: bool = False
    first: dict[str, bytes] = field(default_factory=dict)

    def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        path, query = urlsplit(target).path, urlsplit(target).query
        wanted = parse_qs(query)
        tag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        if self.drops and wanted.get("partNumber") == ["2"]:
            return 200, {"ETag": f'"{tag}"'}, b""
        if self.drops and method == "POST" and "uploadId" in wanted:
            body = PART.sub(b"", body)
        if self.stale and method == "PUT" and not query:
            self.first.setdefault(path, body)
        status, got, content = self.forward(method, path, query, (headers, body))
        if self.stale and method == "GET" and path in self.first:
            content = self.first[path]
        return status, got, content

    def forward(
        self, method: str, path: str, query: str, said: tuple[Mapping[str, str], bytes]
    ) -> tuple[int, dict[str, str], bytes]:
        config = {"address": self.address, "access_key": self.keys.access, "secret_key": self.keys.secret}
        text = "&".join(sorted(part if "=" in part else f"{part}=" for part in query.split("&") if part))
        mine = signed(config, method, path, time.gmtime(), text)
        kept = {key: value for key, value in said[0].items() if key.lower() in _KEPT or key.lower().startswith(_META)}
        with closing(http.client.HTTPConnection(self.address, timeout=60)) as line:
            line.request(method, f"{path}?{text}" if text else path, body=said[1], headers={**mine, **kept})
            answer = line.getresponse()
            headers = {key: value for key, value in answer.getheaders() if key.lower() not in _OF_THE_LINE}
            # An answer to HEAD has a length and no body.
            return answer.status, headers, answer.read()


@contextmanager
def between(liar: Liar) -> Iterator[str]:
    """The liar's own address."""

    class Handler(BaseHTTPRequestHandler):
        def handle_all(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, content = liar.answer(self.command, self.path, dict(self.headers), body)
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_all  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def gateway(home: Home) -> Iterator[Cluster]:
    with raised(LocalProvider(), ONE, home) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("lie", "case", "outcome", "said"),
    [
        ("", multipart.in_parts, Outcome.PASS, ""),
        ("drops", multipart.in_parts, Outcome.FAIL, ""),
        ("", objects.overwritten, Outcome.PASS, ""),
        ("stale", objects.overwritten, Outcome.FAIL, "body after put 1: got 450 bytes"),
    ],
    ids=["an honest upload", "a dropped part", "honest versions", "an old version"],
)
def test_a_gateway_that_lies_is_found(
    gateway: Cluster, tmp_path: Path, lie: str, case: Case, outcome: Outcome, said: str
) -> None:
    first = owner(gateway)
    keys = Keys(first.access_key, first.secret_key)
    with between(Liar(first.address, keys, drops="drops" in lie, stale="stale" in lie)) as address:
        door = Entrance("x86_64", address, first.tls_address, tmp_path)
        bucket = f"{case.__name__.replace('_', '-')}-{lie or 'honest'}"
        results = []
        for arch in Arch:
            ways = Ways(
                replace(door, arch=arch.value),
                replace(door, arch=arch.other.value),
                keys,
                keys,
                f"{bucket}-{arch.debian}",
            )
            results.append(tried(f"group.{case.__name__}", case, ways))
    recorder = History().recorder("s3.sabotage")
    recorder.record("began", check="gtest", goal="", sees=[])
    record(recorder, results)
    recorder.record("ended")
    verdict = verdict_of(recorder.events())
    assert verdict.outcome is outcome, verdict
    assert said in str(verdict)


@pytest.mark.parametrize("back", [False, True], ids=["a sound OSD", "an OSD with an old version"])
def test_an_osd_that_returns_an_old_version_is_found(gateway: Cluster, back: bool) -> None:
    """The bytes of an object are put back in RADOS to those before its last acknowledged write."""
    host, doors = gateway.client.host, speaking_s3(gateway)
    load = S3Load(bucket=f"old-{back}-".lower(), objects=4, phases=(FILL,))
    s3load.run(host, doors, replace(load, seed=6), timeout_s=120)
    ident = bucket_id(gateway, f"{load.bucket}0")
    kept = str(host.directory / f"old-{back}")
    gateway.tool(host.name, "rados", "-p", DATA_POOL, "get", f"{ident}_o1", kept)
    assert not s3load.run(host, doors, replace(load, seed=7), timeout_s=120).errors
    if back:
        gateway.tool(host.name, "rados", "-p", DATA_POOL, "put", f"{ident}_o1", kept)
    recorder = History().recorder("object.sabotage")
    result = s3load.run(host, doors, replace(load, seed=7, phases=(FINAL,)), timeout_s=120)
    truthful(recorder, "the load", result)
    verdict = CHECKS["witnessed"](recorder.events())
    assert verdict.outcome is (Outcome.FAIL if back else Outcome.PASS), verdict
    assert ("get of /old-true-0/o1" in str(verdict)) is back


def bucket_id(cluster: Cluster, bucket: str) -> str:
    argv = ("bucket", "stats", "--bucket", bucket, "--format", "json")
    return str(json.loads(cluster.tool(cluster.client.host.name, "radosgw-admin", *argv))["marker"])
