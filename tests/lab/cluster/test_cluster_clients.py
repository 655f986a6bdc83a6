"""The long-lived clients of a cluster: one a host, whoever asks first, and none left behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.cluster import raising
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.layout import build_spec

FIRST = 4
"""Threads that ask at once."""


class Client:
    """Starts when all that ask could have come, and dies when told to."""

    def __init__(self, made: list[Client]) -> None:
        self.living, self.closed = True, False
        made.append(self)

    def alive(self) -> bool:
        return self.living

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Every client that was started."""
    started: list[Client] = []
    gate = threading.Barrier(FIRST)

    def start(_cluster: OwnCluster, _node: str) -> RadosClient:
        try:
            gate.wait(timeout=0.05)  # for as long as a second starter would need to come in
        except threading.BrokenBarrierError:
            gate.reset()
        return cast("RadosClient", Client(started))

    monkeypatch.setattr(OwnCluster, "new_client", start)
    return started


def cluster() -> OwnCluster:
    nothing = cast("Any", None)
    return OwnCluster(nothing, nothing, nothing, cast("Any", SimpleNamespace(hosts={})), nothing, nothing)


def test_threads_that_come_first_at_once_share_one(made: list[Client]) -> None:
    own = cluster()
    with ThreadPoolExecutor(FIRST) as pool:
        clients = set(pool.map(lambda _: id(own.client_on("n0")), range(FIRST)))
    assert (len(made), len(clients)) == (1, 1)


def test_a_dead_one_is_closed_and_replaced(made: list[Client]) -> None:
    own = cluster()
    first = own.client_on("n0")
    made[0].living = False
    assert own.client_on("n0") is not first
    assert [client.closed for client in made] == [True, False]
    own.close_clients()
    assert [client.closed for client in made] == [True, True]


def test_a_cluster_whose_state_cannot_be_written_leaves_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    client = SimpleNamespace(host=SimpleNamespace(name="n0"), close=lambda: closed.append("n0"))
    sizing = SimpleNamespace(reason="small")
    deployer = SimpleNamespace(plan=SimpleNamespace)
    provider = SimpleNamespace(launch=lambda *_, **__: nullcontext(SimpleNamespace(hosts={})))

    def full(_cluster: OwnCluster) -> None:
        raise LabBroken("the disk is full")

    monkeypatch.setattr(raising, "require_fit", lambda *_: sizing)
    monkeypatch.setattr(raising, "Deployer", lambda *_: deployer)
    monkeypatch.setattr(raising, "_deploy", lambda *_: client)
    monkeypatch.setattr(OwnCluster, "save", full)
    run = Runs(Home(tmp_path).ensure()).create("fake")
    raised = raising.raise_cluster(cast("Any", provider), build_spec([(host_arch(), 1)]), {}, run)
    with pytest.raises(LabBroken, match="the disk is full"), raised:
        pytest.fail("it was raised")
    assert closed == ["n0"]
