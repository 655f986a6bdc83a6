"""The long-lived clients of a cluster: one a host, whoever asks first, and none left behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.cluster.own import OwnCluster

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
