"""Swift API for containers and objects: writes through a gateway of one architecture, reads through the other."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.redaction import remember
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import USER, speaking_s3
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.object.stand import gateways

SUBUSER = f"{USER}:swift"
TIMEOUT_S = 60.0
BODY, LARGER = b"swift of one architecture", bytes(range(256)) * 4096
NO_HEADERS: Mapping[str, str] = {}


class Answer(NamedTuple):
    """An HTTP answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Door:
    """A gateway's Swift API after TempAuth (v1.0) log-in. address: ADDRESS:PORT; path: of the account."""

    address: str
    path: str
    token: str
    timeout_s: float

    def ask(self, method: str, path: str, headers: Mapping[str, str] = NO_HEADERS, body: bytes = b"") -> Answer:
        """Send one request. path: below the account, with its query."""
        more = {"X-Auth-Token": self.token, **headers}
        return asked(self.address, method, f"{self.path}{path}", more, body, self.timeout_s)


def asked(address: str, method: str, target: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Answer:
    """Send one request on its own connection."""
    line = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        line.request(method, target, body or None, dict(headers))
        answer = line.getresponse()
        return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
    finally:
        line.close()


def opened(cluster: Cluster, address: str) -> Door:
    """Log in at a gateway. LabBroken if it gives no token."""
    timeout_s = TIMEOUT_S * cluster.patience
    headers = {"X-Auth-User": SUBUSER, "X-Auth-Key": secret(cluster)}
    answer = asked(address, "GET", "/auth/v1.0", headers, b"", timeout_s)
    if answer.status not in (200, 204):
        raise LabBroken(f"Swift log-in at {address} failed", f"{answer.status}: {answer.body[:200]!r}")
    token = answer.headers["x-auth-token"]
    remember(token)
    return Door(address, urlsplit(answer.headers["x-storage-url"]).path, token, timeout_s)


def secret(cluster: Cluster) -> str:
    """The Swift key of the lab's user; the first call creates it."""
    tool = partial(cluster.tool, cluster.client.host.name, "radosgw-admin")
    speaking_s3(cluster)  # makes the user
    user: dict[str, Any] = json.loads(tool("user", "info", "--uid", USER, "--format", "json"))
    if not user["swift_keys"]:
        tool("subuser", "create", "--uid", USER, "--subuser", SUBUSER, "--access", "full")
        more = ("--key-type", "swift", "--gen-secret", "--format", "json")
        user = json.loads(tool("key", "create", "--subuser", SUBUSER, *more))
    key = str(next(entry["secret_key"] for entry in user["swift_keys"] if entry["user"] == SUBUSER))
    remember(key)
    return key


def run(stage: Stage) -> None:
    """Run every request with each gateway once as the writer."""
    doors = {arch: opened(stage.cluster, gateway.address) for arch, gateway in gateways(stage.cluster).items()}
    for writer in Arch:
        name = f"/swift-{writer.debian}-{stage.rng.randrange(1 << 24):06x}"
        way = f"through {writer}, read through {writer.other}"
        containers(stage.recorder, doors[writer], doors[writer.other], name, way)
        objects(stage.recorder, doors[writer], doors[writer.other], name, way)
        ended(stage.recorder, doors[writer], doors[writer.other], name, way)


def containers(recorder: Recorder, writer: Door, reader: Door, name: str, way: str) -> None:
    """Test PUT, POST, HEAD and GET of a container, and GET of the account."""
    status = writer.ask("PUT", name, {"X-Container-Meta-Colour": "blue"}).status
    recorder.observe(f"PUT of a container {way}", got=status, wanted=201)
    again = writer.ask("PUT", name).status
    recorder.observe(f"PUT of an existing container {way}", got=again, wanted=202)
    posted = writer.ask("POST", name, {"X-Container-Meta-Shape": "round"}).status
    recorder.observe(f"POST of a container {way}", got=posted, wanted=204)
    head = reader.ask("HEAD", name)
    meta = {key: head.headers.get(f"x-container-meta-{key}") for key in ("colour", "shape")}
    recorder.observe(f"HEAD of a container {way}", got=meta, wanted={"colour": "blue", "shape": "round"})
    listed = [entry["name"] for entry in json.loads(reader.ask("GET", "?format=json").body)]
    recorder.observe(f"GET of an account {way}", got=name[1:] in listed, wanted=True)


def objects(recorder: Recorder, writer: Door, reader: Door, name: str, way: str) -> None:
    """Test PUT, GET, HEAD, POST, COPY and listing of objects."""
    for path, body in ((f"{name}/a/1", BODY), (f"{name}/a/2", LARGER), (f"{name}/b", BODY)):
        status = writer.ask("PUT", path, {"X-Object-Meta-Kind": "x"}, body).status
        recorder.observe(f"PUT of an object of {len(body)} bytes {way}", got=status, wanted=201)
        got = reader.ask("GET", path).body == body
        recorder.observe(f"GET of an object of {len(body)} bytes is what was put {way}", got=got, wanted=True)
    part = reader.ask("GET", f"{name}/a/2", {"Range": "bytes=256-511"})
    recorder.observe(f"GET of a range {way}", got=[part.status, part.body == LARGER[:256]], wanted=[206, True])
    posted = writer.ask("POST", f"{name}/a/1", {"X-Object-Meta-Kind": "y"}).status
    recorder.observe(f"POST of an object {way}", got=posted, wanted=202)
    head = reader.ask("HEAD", f"{name}/a/1").headers
    meta = [head.get("x-object-meta-kind"), head.get("content-length")]
    recorder.observe(f"HEAD of an object {way}", got=meta, wanted=["y", str(len(BODY))])
    copied = writer.ask("COPY", f"{name}/a/2", {"Destination": f"{name}/c"}).status
    recorder.observe(f"COPY of an object {way}", got=copied, wanted=201)
    recorder.observe(f"GET of a copy {way}", got=reader.ask("GET", f"{name}/c").body == LARGER, wanted=True)
    for query, wanted in (
        ("", ["a/1", "a/2", "b", "c"]),
        ("?prefix=a/", ["a/1", "a/2"]),
        ("?delimiter=/", ["a/", "b", "c"]),
        ("?limit=2&marker=a/1", ["a/2", "b"]),
    ):
        names = reader.ask("GET", f"{name}{query}").body.decode().split()
        recorder.observe(f"GET of a container{query} {way}", got=names, wanted=wanted)


def ended(recorder: Recorder, writer: Door, reader: Door, name: str, way: str) -> None:
    """Test DELETE of objects and of the container, which must be empty, and a request with a wrong token."""
    full = writer.ask("DELETE", name).status
    recorder.observe(f"DELETE of a container with objects {way}", got=full, wanted=409)
    for path in ("a/1", "a/2", "b", "c"):
        statuses = [writer.ask("DELETE", f"{name}/{path}").status, reader.ask("GET", f"{name}/{path}").status]
        recorder.observe(f"DELETE of {path}, then GET {way}", got=statuses, wanted=[204, 404])
    last = [writer.ask("DELETE", name).status, reader.ask("HEAD", name).status]
    recorder.observe(f"DELETE of a container, then HEAD {way}", got=last, wanted=[204, 404])
    stranger = Door(reader.address, reader.path, "AUTH_rgwtk00", reader.timeout_s)
    refused = stranger.ask("GET", "").status in (401, 403)
    recorder.observe(f"GET with an invalid token is refused {way}", got=refused, wanted=True)


def scenario(topology: Topology) -> Scenario:
    return Scenario(
        name="s3.swift",
        goal="Swift requests for containers and objects work across gateways of both architectures.",
        method="Sends each write through one gateway, and checks its effect through the other; then the reverse.",
        run=run,
        sees=("PUT of a container .*", "COPY of an object .*", "DELETE of a container, then HEAD .*"),
        topology=topology,
        needs=frozenset({Capability.THIS_MACHINE}),
    )
