"""A monitor that gives no new client an id is restarted once, and a store that was not emptied is found; no cluster."""

import errno
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import RadosError
from cephlab.lab.checks import Outcome
from cephlab.lab.checks.witnessed import witnessed, witnesses
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
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


class Disk:
    """The machine of a stopped monitor. keys: of its store; keeps: whether they outlive the store, as on a bad disk."""

    directory = PurePosixPath("/lab")

    def __init__(self, commits: int, *, keeps: bool) -> None:
        self.keys = ["mkfs / monmap", "paxos / last_committed", *(f"paxos / {number}" for number in range(commits))]
        self.keeps = keeps

    def push(self, _data: bytes, _path: PurePosixPath, *, mode: int = 0o644) -> None: ...
    def make_directory(self, _path: PurePosixPath) -> None: ...

    def read(self, _path: PurePosixPath) -> bytes:
        return b"a key"

    def remove(self, path: PurePosixPath) -> None:
        if path.name == NAME and not self.keeps:
            self.keys = []

    def run(self, argv: list[str], **_: Any) -> SimpleNamespace:
        assert argv[0] == "ceph-mon" or argv == ["ceph-monstore-tool", f"/lab/{NAME}", "dump-keys"]
        return SimpleNamespace(stdout="".join(f"{key}\n" for key in self.keys))


@pytest.mark.parametrize(
    ("commits", "keeps", "outcome"),
    [(500, False, Outcome.PASS), (500, True, Outcome.FAIL), (0, False, Outcome.INCONCLUSIVE)],
)
def test_a_store_that_was_not_emptied_is_found(
    monkeypatch: pytest.MonkeyPatch, commits: int, keeps: bool, outcome: Outcome
) -> None:
    monkeypatch.setattr("cephlab.suites.interop.monitors.conf.conf_path", lambda _: PurePosixPath("/lab/ceph.conf"))
    disk = Disk(commits, keeps=keeps)
    daemon = SimpleNamespace(id="n1", name=NAME, host=disk, log=None)
    client = SimpleNamespace(command=lambda *_: b"a map")
    cluster = SimpleNamespace(patience=1.0, daemon=lambda _name: daemon, client=client)
    stage = Stage(cast("Cluster", cluster), History().recorder("s"), Random(1), Path())
    monitors.wiped(stage, NAME)
    assert witnessed(stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(("quorum", "outcome"), [(["n0", "n1"], Outcome.PASS), (["n0"], Outcome.INCONCLUSIVE)])
def test_a_quorum_of_one_architecture_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, quorum: list[str], outcome: Outcome
) -> None:
    """Both monitors are in the spec in either case."""
    monkeypatch.setattr(monitors, "chosen_leaders", lambda _: nullcontext())
    monkeypatch.setattr("cephlab.suites.interop.monitors.pools.pool", lambda *_, **__: nullcontext("quorum"))
    archs = dict(zip(("mon.n0", "mon.n1"), Arch, strict=True))
    daemons = {name: SimpleNamespace(name=name, kind="mon", host=SimpleNamespace(arch=archs[name])) for name in archs}
    client = SimpleNamespace(mon=lambda _command: {"quorum_names": quorum})
    cluster = SimpleNamespace(client=client, daemons=daemons, daemon=daemons.__getitem__)
    stage = Stage(cast("Cluster", cluster), History().recorder("s"), Random(1), Path())
    monkeypatch.setattr(monitors, "Mirror", lambda *_: SimpleNamespace(verify=lambda *_: None))
    monitors.outages(stage, ())
    assert witnesses(stage.recorder.events()).outcome is outcome


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
