"""A monitor that gives no new client an id is started anew, once, and the history says so; with no cluster."""

import errno
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import RadosError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.interop import monitors

NAME = "mon.n1"


class Client:
    """Gets in, or fails with an errno."""

    def __init__(self, refusal: int | None) -> None:
        self.refusal = refusal

    def call(self, operation: str, **_arguments: Any) -> None:
        if self.refusal is not None:
            raise RadosError(operation, "TimedOut", self.refusal, "error connecting to the cluster")

    def close(self) -> None:
        """Nothing is open."""


def stage_of(refusal: int | None, done: list[str]) -> Stage:
    host = SimpleNamespace(address="10.0.0.1", name="n0")
    daemon = SimpleNamespace(kind="mon", name=NAME)
    cluster = SimpleNamespace(
        patience=2.0,
        client=SimpleNamespace(host=host),
        daemons={NAME: daemon},
        host_of=lambda _name: host,
        new_client=lambda _node, options: Client(refusal) if options else None,
        stop=lambda name: done.append(f"stop {name}"),
        start=lambda name: done.append(f"start {name}"),
        wait=lambda _ready, what, **_rest: done.append(what),
    )
    return Stage(cast("Cluster", cluster), History().recorder("s"), Random(1), Path())


def test_a_monitor_without_ids_is_started_anew_and_named() -> None:
    done: list[str] = []
    stage = stage_of(errno.ETIMEDOUT, done)
    monitors.with_ticks(stage, NAME)
    assert done == [f"stop {NAME}", f"start {NAME}", "quorum of n1"]
    (event,) = stage.recorder.events()
    assert event.kind == "defect"
    assert event.data["monitor"] == NAME


def test_a_monitor_that_gives_ids_is_let_alone() -> None:
    done: list[str] = []
    stage = stage_of(None, done)
    monitors.with_ticks(stage, NAME)
    assert done == []
    assert stage.recorder.events() == ()


def test_another_refusal_is_not_taken_for_it() -> None:
    done: list[str] = []
    with pytest.raises(RadosError):
        monitors.with_ticks(stage_of(errno.EACCES, done), NAME)
    assert done == []
