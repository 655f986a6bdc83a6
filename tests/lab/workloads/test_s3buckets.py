"""Buckets of loads are removed whatever happens: from another client or from this machine, or a command is named."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken, LeftBehind
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.gateway import Endpoint
from cephlab.lab.workloads import s3_load_program, s3buckets, s3load
from cephlab.lab.workloads.s3_load_program import CLEAN, EXIST
from cephlab.lab.workloads.s3_program import S3Answer
from cephlab.lab.workloads.s3buckets import names_of, new_buckets, refused, remove_buckets
from cephlab.lab.workloads.s3fleet import Fleet
from cephlab.lab.workloads.s3load import S3Load
from tests.fake_s3 import CONFIG

DOORS = [Endpoint("192.0.2.1:80", "a", "s"), Endpoint("192.0.2.2:80", "a", "s")]


@dataclass
class Store:
    """Buckets behind the endpoints.

    down: endpoints that refuse connections; stuck: buckets that cannot be removed; said: requests that were answered.
    """

    buckets: dict[str, set[str]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    def send(self, config: Any, method: str, path: str, query: Any = None) -> S3Answer:
        if config["address"] in self.down:
            raise ConnectionRefusedError(f"{config['address']} refused")
        self.said.append(f"{method} {path}")
        bucket, _, name = path[1:].partition("/")
        if bucket not in self.buckets:
            return S3Answer(404, {}, b"<Code>NoSuchBucket</Code>")
        if method == "GET":
            page = sorted(self.buckets[bucket])[: int(query["max-keys"])]
            return S3Answer(200, {}, "".join(f"<Key>{each}</Key>" for each in page).encode())
        if method == "DELETE" and name:
            self.buckets[bucket].discard(name)
        elif method == "DELETE":
            if self.buckets[bucket] or bucket in self.stuck:
                return S3Answer(409, {}, b"<Code>BucketNotEmpty</Code>")
            del self.buckets[bucket]
        return S3Answer(204, {}, b"")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """What this machine's own connections reach."""
    made = Store()

    class Line:
        def __init__(self, config: Any) -> None:
            self.config = config

        def send(self, method: str, path: str, query: Any = None) -> S3Answer:
            return made.send(self.config, method, path, query)

        def ask(self, method: str, path: str) -> bytes:
            answer = self.send(method, path)
            if answer.code:
                raise OSError(f"{method} {path}: {answer.code}")
            return answer.body

    for module in (s3buckets, s3_load_program):
        monkeypatch.setattr(module, "S3Connection", Line)
    return made


@dataclass
class Clients:
    """The client machines. lost: those that cannot be reached; ran: (host, bucket, first endpoint) of each clean-up."""

    store: Store
    lost: set[str] = field(default_factory=set)
    ran: list[tuple[str, str, str]] = field(default_factory=list)

    def run(self, host: Any, doors: Sequence[Endpoint], load: S3Load, *, timeout_s: float) -> None:
        assert (load.phases, timeout_s) == ((CLEAN,), 9.0)
        if host.name in self.lost:
            raise LabBroken(f"{host.name} is lost")
        if doors[0].address in self.store.down or self.store.stuck & set(names_of(load)):
            raise LabBroken(f"the S3 load on {host.name} left no result")
        self.ran.append((host.name, load.bucket, doors[0].address))
        for name in names_of(load):
            self.store.buckets.pop(name, None)


@pytest.fixture
def clients(store: Store, monkeypatch: pytest.MonkeyPatch) -> Clients:
    made = Clients(store)
    monkeypatch.setattr(s3load, "run", made.run)
    return made


def loads(store: Store, *hosts: str, objects: int = 3) -> list[tuple[Any, S3Load]]:
    """A load on each host, whose bucket is there with its objects."""
    machines = {name: SimpleNamespace(name=name) for name in hosts}
    made = [(machines[name], S3Load(bucket=f"b{number}-", own_buckets=True)) for number, name in enumerate(hosts)]
    store.buckets |= {name: {f"o{n}" for n in range(objects)} for _, load in made for name in names_of(load)}
    return made


def test_each_bucket_is_removed_from_its_own_machine(store: Store, clients: Clients) -> None:
    remove_buckets(loads(store, "c0", "c1"), DOORS, timeout_s=9.0)
    assert sorted(clients.ran) == [("c0", "b0-", "192.0.2.1:80"), ("c1", "b1-", "192.0.2.1:80")]
    assert store.buckets == {}


def test_another_client_removes_the_bucket_of_a_lost_one(store: Store, clients: Clients) -> None:
    clients.lost = {"c1"}
    remove_buckets(loads(store, "c0", "c1"), DOORS, timeout_s=9.0)
    assert sorted(clients.ran) == [("c0", "b0-", "192.0.2.1:80"), ("c0", "b1-", "192.0.2.2:80")]
    assert store.buckets == {}


def test_another_client_asks_another_gateway_first(store: Store, clients: Clients) -> None:
    store.down = {"192.0.2.1:80"}
    remove_buckets(loads(store, "c0", "c1"), DOORS, timeout_s=9.0)
    assert {door for _, _, door in clients.ran} == {"192.0.2.2:80"}
    assert store.buckets == {}


@pytest.mark.parametrize("down", [set(), {"192.0.2.1:80"}])
def test_this_machine_removes_what_no_client_can(store: Store, clients: Clients, down: set[str]) -> None:
    clients.lost, store.down = {"c0"}, down
    remove_buckets(loads(store, "c0", objects=2500), DOORS, timeout_s=9.0)
    assert store.buckets == {}
    assert sum(line.startswith("GET") for line in store.said) == 4
    store.said.clear()
    gone = [(SimpleNamespace(name="c0"), S3Load(bucket="b0-"))]
    remove_buckets(cast("Any", gone), DOORS, timeout_s=9.0)
    assert store.said == ["HEAD /b0-0"]


def test_what_is_left_is_reported_with_its_command_and_the_rest_is_removed(store: Store, clients: Clients) -> None:
    both = loads(store, "c0", "c1")
    store.stuck = {"b0-0"}
    with pytest.raises(LeftBehind, match="could not remove 1 bucket") as left:
        remove_buckets(both, DOORS, timeout_s=9.0)
    assert left.value.detail == (
        "b0-0: from c0: the S3 load on c0 left no result; from c1: the S3 load on c1 left no result; "
        "from this machine through 192.0.2.1:80: DELETE /b0-0: BucketNotEmpty; "
        "from this machine through 192.0.2.2:80: DELETE /b0-0: BucketNotEmpty"
    )
    assert left.value.hint == "radosgw-admin bucket rm --bucket=b0-0 --purge-objects"
    assert set(store.buckets) == {"b0-0"}


def test_an_interrupted_removal_says_what_may_be_left(
    store: Store, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(s3load, "run", interrupted)
    with pytest.raises(LeftBehind, match="could not remove 1 bucket") as left:
        remove_buckets(loads(store, "c0"), DOORS, timeout_s=9.0)
    assert isinstance(left.value.__context__, KeyboardInterrupt)
    assert left.value.detail == "b0-0: its removal was interrupted"


# For the length of a block

STANDS = AttachedCluster.__new__(AttachedCluster)
OWN = cast("AttachedCluster", SimpleNamespace())


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the look for existing buckets says: client -> why it was lost."""
    lost: dict[str, str] = {}

    def together(loads: Sequence[tuple[Any, S3Load]], _doors: object, **_: object) -> Fleet:
        assert {load.phases for _, load in loads} == {()}
        return Fleet({}, lost, {}, {})

    monkeypatch.setattr(s3buckets, "run_together", together)
    return lost


@pytest.mark.parametrize("error", [KeyboardInterrupt, LabBroken])
def test_an_interrupted_block_leaves_no_bucket_on_a_cluster_that_stays(
    store: Store, clients: Clients, looked: dict[str, str], error: type[BaseException]
) -> None:
    ended = error() if error is KeyboardInterrupt else LabBroken("a client was lost")
    with pytest.raises(error), new_buckets(STANDS, loads(store, "c0"), DOORS, timeout_s=9.0):
        raise ended
    assert (store.buckets, looked) == ({}, {})


def test_an_interruption_waits_for_no_bucket_of_a_cluster_that_goes(
    store: Store, clients: Clients, looked: dict[str, str]
) -> None:
    with pytest.raises(KeyboardInterrupt), new_buckets(OWN, loads(store, "c0"), DOORS, timeout_s=9.0):
        raise KeyboardInterrupt
    assert clients.ran == []
    with new_buckets(OWN, loads(store, "c0"), DOORS, timeout_s=9.0):
        pass
    assert (store.buckets, looked) == ({}, {})


def test_a_bucket_that_is_there_stops_the_block_before_it_begins_and_stays(
    store: Store, clients: Clients, looked: dict[str, str]
) -> None:
    looked["c0"] = f"the S3 load on c0 left no result: {EXIST}: b0-0"
    with (
        pytest.raises(LabBroken, match="1 S3 client cannot make a new bucket") as stopped,
        new_buckets(STANDS, loads(store, "c0"), DOORS, timeout_s=9.0),
    ):
        raise AssertionError("the block began")
    assert "b0-0" in stopped.value.detail
    assert set(store.buckets) == {"b0-0"}
    assert clients.ran == []


def test_a_bucket_that_somebody_made_meanwhile_stays(store: Store, clients: Clients, looked: dict[str, str]) -> None:
    both = loads(store, "c0", "c1")
    with new_buckets(STANDS, both, DOORS, timeout_s=9.0) as foreign:
        foreign.update(refused(Fleet({}, {"c0": "signal 9", "c1": f"left no result: {EXIST}: b1-0"}, {}, {}), both))
    assert set(store.buckets) == {"b1-0"}
    assert looked == {}


# The program on a client's machine


def program(monkeypatch: pytest.MonkeyPatch, folder: Path, **config: Any) -> None:
    files = {"log": str(folder / "rows"), "output": str(folder / "out")}
    given = {**CONFIG, "own_buckets": True, "filled": True, **files, **config}
    monkeypatch.setattr(s3_load_program, "configured", lambda: given)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    s3_load_program.main()


def test_a_load_without_phases_only_looks(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(monkeypatch, tmp_path, phases=[])
    assert store.said == ["HEAD /b0"]
    assert store.buckets == {}
    store.buckets = {"b0": set()}
    with pytest.raises(SystemExit, match=f"{EXIST}: b0"):
        program(monkeypatch, tmp_path, phases=[])
    assert "b0" in store.buckets


def test_a_clean_up_deletes_the_bucket_of_a_load_that_was_ended_early(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(monkeypatch, tmp_path, phases=[CLEAN])
    assert set(store.said) == {"HEAD /b0"}
    store.buckets = {"b0": {"o0", "o5"}}
    program(monkeypatch, tmp_path, phases=[CLEAN])
    assert store.buckets == {}


@pytest.mark.parametrize(("status", "there"), [(200, True), (403, True), (404, False)])
def test_a_bucket_is_there_whoever_owns_it(status: int, there: bool) -> None:
    assert s3_load_program.existing(answering(status), ["b"]) == (["b"] if there else [])


def test_a_gateway_that_cannot_tell_has_no_such_bucket() -> None:
    """HAProxy answers 503 when no gateway is up. A load that took that for a bucket would name one to be removed."""
    with pytest.raises(OSError, match="HEAD /b: 503"):
        s3_load_program.refuse_existing(answering(503), ["b"])


def answering(status: int) -> Any:
    return SimpleNamespace(send=lambda _method, _path: S3Answer(status, {}, b""))
