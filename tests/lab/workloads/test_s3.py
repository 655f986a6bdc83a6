"""S3 load through a gateway: what is asked of the client, what it says, and when a load of new objects must end."""

from __future__ import annotations

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from cephlab.cli.measure_request import gateway_of
from cephlab.lab.base.errors import CephTrouble, SpecError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL, Gateway
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.clients import FULL_PERCENT, ObjectClients, job_of
from cephlab.lab.telemetry.demand import Operation, Role
from cephlab.lab.telemetry.place import GATEWAY, MeasuringLayout, measuring_spec
from cephlab.lab.telemetry.plan import Plan
from cephlab.lab.workloads import s3, s3_program
from cephlab.lab.workloads.s3 import S3Job

GET = Plan(Operation("get", 64 << 10, 8, replicas=3), ("client",), 8 << 20, gateway=GATEWAY)
PUT = replace(GET, operation=replace(GET.operation, name="put"))
DELETE = replace(GET, operation=replace(GET.operation, name="delete"))
TCP_REPAIR = 19
"""Of the kernel's netinet/tcp.h, which Python does not name."""
CONFIG = {"bucket": "measured", "objects": 3, "seed": 1, "operation": "get"}


def work(**config: Any) -> s3_program.Work:
    return s3_program.Work({**CONFIG, **config})


def test_what_a_client_did_is_told_as_fio_tells_it() -> None:
    said = json.dumps({"operations": 50, "seconds": 2.0, "waited_s": 5.0, "errors": 0, "words": ""}).encode()
    put = s3.parse(said, S3Job("put", "b", 0, 1000, 4, 9.0))
    assert (put.write.operations, put.write.bytes, put.write.iops, put.write.latency_mean_s) == (50, 50_000, 25, 0.1)
    assert put.read.operations == 0
    assert s3.parse(said, S3Job("get", "b", 9, 1000, 4, 9.0)).main.operations == 50


def test_a_failed_request_is_trouble_and_no_figure() -> None:
    said = json.dumps({"operations": 50, "seconds": 2.0, "waited_s": 5.0, "errors": 1, "words": "503 Slow Down"})
    with pytest.raises(CephTrouble, match=r"failed 1 request of") as error:
        s3.parse(said.encode(), S3Job("get", "b", 9, 1000, 4, 9.0))
    assert error.value.detail == "503 Slow Down"


def test_every_put_is_of_a_new_object_and_every_get_of_one_that_is_there() -> None:
    names = [work(operation="put").names(number) for number in (0, 1)]
    put = [next(client_names) for client_names in names * 50]
    assert len(set(put)) == 100
    reading = work().names(0)
    assert {next(reading) for _ in range(60)} == {"o0", "o1", "o2"}


def test_every_object_is_deleted_once_and_then_no_more() -> None:
    gone = [name for number in (0, 1) for name in work(operation="delete", objects=5, depth=2).names(number)]
    assert sorted(gone) == ["o0", "o1", "o2", "o3", "o4"]


class Page:
    """A connection whose LIST answers with so many keys."""

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.asked: list[tuple[str, str, Any]] = []

    def send(self, method: str, path: str, query: Any) -> s3_program.S3Answer:
        self.asked.append((method, path, query))
        return s3_program.S3Answer(200, {}, b"<Contents><Key>o</Key></Contents>" * self.keys)


def test_a_page_must_have_the_keys_that_are_there() -> None:
    listing = work(operation="list", objects=5, page=3)
    page = Page(3)
    listing.one(cast("s3_program.S3Connection", page), "o0", b"")
    assert page.asked == [("GET", "/measured", {"list-type": "2", "max-keys": "3"})]
    assert listing.operations == 1
    with pytest.raises(OSError, match="2 keys, wanted 3"):
        listing.one(cast("s3_program.S3Connection", Page(2)), "o0", b"")


def test_a_signature_follows_from_key_path_and_time() -> None:
    config = {"address": "h:1", "access_key": "A", "secret_key": "one"}
    now = time.gmtime(0)
    first = s3_program.signed(config, "GET", "/b/o", now)
    assert first["x-amz-date"] == "19700101T000000Z"
    others = (
        s3_program.signed({**config, "secret_key": "two"}, "GET", "/b/o", now),
        s3_program.signed(config, "PUT", "/b/o", now),
        s3_program.signed(config, "GET", "/b/p", now),
        s3_program.signed(config, "GET", "/b/o", time.gmtime(1)),
    )
    assert len({headers["Authorization"] for headers in (first, *others)}) == 5
    assert all("one" not in value for value in first.values())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may set TCP_REPAIR")
def test_a_gateway_that_came_back_after_a_power_cut_ends_the_requests_from_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(s3_program, "PROBE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        line = s3_program.S3Connection({"address": address, "access_key": "a", "secret_key": "s", "timeout_s": 20.0})

        def lose_power() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(4096)
                accepted.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)  # closed from here on without a packet

        with ThreadPoolExecutor(1) as machine:
            machine.submit(lose_power)
            with pytest.raises(ConnectionResetError):
                line.send("GET", "/b/o")


def test_a_plan_has_a_gateway_exactly_where_objects_go_through_one() -> None:
    for wrong in ({"gateway": ""}, {"operation": Operation("randread", 4096)}):
        with pytest.raises(SpecError, match="gateway"):
            replace(GET, **cast("dict[str, Any]", wrong))
    assert (gateway_of("get"), gateway_of("list"), gateway_of("randread")) == (GATEWAY, GATEWAY, "")
    nodes = measuring_spec(Arch.X86_64, MeasuringLayout(gateway=True)).nodes
    assert [node.name for node in nodes if node.name == GATEWAY and not node.osds] == [GATEWAY]


def test_what_is_read_is_there_before_and_what_is_put_is_not() -> None:
    assert job_of(GET).objects == 128
    assert job_of(replace(GET, image_bytes=1 << 20)).objects == 16
    assert job_of(replace(GET, image_bytes=1 << 18)).objects == GET.operation.depth
    assert job_of(replace(GET, image_bytes=1 << 40)).objects == GET.most_objects
    assert job_of(PUT).objects == 0
    assert job_of(replace(DELETE, image_bytes=1 << 40)).objects == (1 << 40) // DELETE.operation.block_bytes


def test_deleting_takes_one_client_and_a_page_takes_a_thousand_objects() -> None:
    with pytest.raises(SpecError, match="2 clients that delete"):
        replace(DELETE, operation=replace(DELETE.operation, clients=2), nodes=("client", "client1"))
    block = GET.operation.block_bytes
    listing = replace(GET, operation=replace(GET.operation, name="list"), image_bytes=1000 * block)
    with pytest.raises(SpecError, match="at least 1000 wanted"):
        replace(listing, image_bytes=999 * block)


@dataclass
class Full:
    """A cluster whose fullest OSD is so full. purged: the tools that ran; objects: that are left."""

    percent: float
    purged: list[str]
    objects: int = 0

    @property
    def client(self) -> Full:
        return self

    def mon(self, prefix: str) -> Any:
        if prefix == "df":
            return {"pools": [{"name": DATA_POOL, "stats": {"objects": self.objects}}]}
        assert prefix == "osd df"
        return {"nodes": [{"utilization": 1.0}, {"utilization": self.percent}]}

    def tool(self, node: str, *argv: str) -> str:
        self.purged.append(f"{node}: {' '.join(argv[:2])}")
        return ""


@pytest.mark.parametrize(("percent", "ends"), [(FULL_PERCENT - 1, False), (FULL_PERCENT, True)])
def test_new_objects_are_put_until_a_disk_is_rather_full(percent: float, ends: bool) -> None:
    clients = ObjectClients(cast("Cluster", Full(percent, [])), PUT, cast("Gateway", None))
    assert bool(clients.enough()) is ends


@pytest.mark.parametrize(("left", "ends"), [(32, False), (31, True)])
def test_deleting_ends_before_nothing_is_left(left: int, ends: bool) -> None:
    clients = ObjectClients(cast("Cluster", Full(0.0, [], left)), DELETE, cast("Gateway", None))
    assert job_of(DELETE).objects == 128
    assert bool(clients.enough()) is ends


def test_the_place_is_emptied_before_objects_are_put_and_never_before_they_are_read() -> None:
    for plan, expected in ((PUT, [f"{GATEWAY}: rados purge"]), (GET, [])):
        cluster = Full(0.0, [])
        ObjectClients(cast("Cluster", cluster), plan, cast("Gateway", None)).ready()
        assert cluster.purged == expected


def test_a_gateways_clients_borrow_nobodys_programs() -> None:
    clients = ObjectClients(cast("Cluster", None), GET, cast("Gateway", "it"))
    assert clients.lent(None) is clients
    assert list(clients.serving()) == [Role.GATEWAY]
    with pytest.raises(SpecError, match="no programs of Ceph"):
        clients.lent({})
