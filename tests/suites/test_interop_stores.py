"""What scenarios read from a single store, a monitor's or an OSD's: an old or a wrong one is seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import compression, monitors
from tests.suites.test_interop_mirror import FakePool

VICTIM = "mon.n0"


def stage_of(cluster: object, scratch: Path) -> Stage:
    return Stage(cast("Cluster", cluster), History().recorder("interop.x"), random.Random(1), scratch)


def judged(stage: Stage) -> Verdict:
    return CHECKS["witnessed"](stage.recorder.events())


@dataclass
class FakeQuorum(FakePool):
    """Monitors whose keys are `keys`. catches_up: whether the victim gets what it missed in that outage."""

    catches_up: Callable[[int], bool] = lambda _outage: True
    values: dict[str, str] = field(default_factory=dict)
    old: dict[str, str] = field(default_factory=dict)
    outages: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def client(self) -> FakeQuorum:
        return self

    def daemon(self, name: str) -> Any:
        return SimpleNamespace(host=SimpleNamespace(arch=Arch.AARCH64 if name == "mon.n2" else Arch.X86_64))

    def mon(self, prefix: str) -> dict[str, list[str]]:
        assert prefix == "quorum_status"
        return {"quorum_names": ["n0", "n1", "n2"]}

    def stop(self, name: str) -> None:
        assert name == VICTIM
        self.outages += 1

    def start(self, name: str) -> None:
        assert name == VICTIM
        if self.catches_up(self.outages):
            self.old = dict(self.values)

    def command(self, _target: str, prefix: str, **arguments: str) -> bytes:
        assert prefix in {"config-key set", "config-key get"}
        if prefix == "config-key set":
            self.values[arguments["key"]] = arguments["val"]
            return b""
        return self.old[arguments["key"]].encode()


def two_losses(quorum: FakeQuorum, scratch: Path, patch: pytest.MonkeyPatch) -> Verdict:
    """The quick scenario's outages, both of the same monitor."""

    @contextmanager
    def whole(*_: object) -> Iterator[FakeQuorum]:
        yield quorum

    @contextmanager
    def pool(*_: object, **_more: object) -> Iterator[str]:
        yield "quorum"

    def nothing(*_: object) -> None:
        pass

    commits = iter(range(0, 100 * monitors.COMMITS, monitors.COMMITS))
    patch.setattr(pools, "pool", pool)
    for name in ("chosen_leaders", "only"):
        patch.setattr(monitors, name, whole)
    for name in ("lead", "in_quorum", "agree"):
        patch.setattr(monitors, name, nothing)
    patch.setattr(monitors, "first_of", lambda *_: VICTIM)
    patch.setattr(monitors, "leader", lambda _: "mon.n1")
    patch.setattr(monitors, "monitors", lambda _: [VICTIM, "mon.n1", "mon.n2"])
    patch.setattr(monitors, "committed", lambda *_: {"paxos": next(commits)})
    stage = stage_of(quorum, scratch)
    monitors.outages(stage, monitors.QUICK_LOSSES)
    return judged(stage)


def test_a_monitor_that_catches_up_each_time_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert two_losses(FakeQuorum(), tmp_path, monkeypatch).outcome is Outcome.PASS


def test_what_it_got_after_the_first_loss_does_not_pass_for_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = FakeQuorum(catches_up=lambda outage: outage == 1)
    verdict = two_losses(stuck, tmp_path, monkeypatch)
    assert verdict.outcome is Outcome.FAIL
    assert "outage 2" in verdict.reason


@dataclass
class FakeStore:
    """The store of a stopped OSD. types: object -> number of its checksum type."""

    types: dict[str, int]

    def __call__(self, _daemon: object, _patience: float) -> FakeStore:
        return self

    def dump(self, _pgid: str, name: str) -> dict[str, Any]:
        return {"onode": {"extents": [{"blob": {"csum_type": self.types[name]}}]}}


@pytest.mark.parametrize(
    ("types", "outcome"),
    [
        (compression.CHECKSUM_NUMBERS, Outcome.PASS),
        (dict.fromkeys(compression.CHECKSUM_NUMBERS, compression.CHECKSUM_NUMBERS["crc32c"]), Outcome.FAIL),
    ],
    ids=["as-asked", "the-default-for-all"],
)
def test_a_store_that_ignores_the_checksum_type_is_seen(
    types: dict[str, int], outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimpleNamespace(stop=str, start=str, daemon=str, patience=1.0)
    monkeypatch.setattr(compression, "ObjectStore", FakeStore(types))
    monkeypatch.setattr(pools, "locate", lambda *_: {"pgid": "1.0"})
    monkeypatch.setattr(pools, "wait_clean", lambda _: None)
    stage = stage_of(cluster, tmp_path)
    compression.look_inside(stage, 0, "p")
    assert judged(stage).outcome is outcome
