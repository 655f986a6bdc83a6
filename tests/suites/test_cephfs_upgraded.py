"""What an upgrade with CephFS says of a newer release that reads the older one's trees wrongly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.services import mds
from cephlab.suites.cephfs import upgraded
from cephlab.suites.cephfs.model import FsModel
from cephlab.suites.interop.walks.walk import Step, answer_of
from cephlab.suites.upgrade import rolling

SIDES = ("x86_64", "aarch64")


class Trees:
    """Trees in memory, by place."""

    def __init__(self) -> None:
        self.models: dict[str, FsModel] = {}
        self.place = ""

    def begin(self, place: str) -> None:
        self.place = place
        self.models.setdefault(place, FsModel())

    def ask(self, operation: str, arguments: dict[str, Any]) -> Any:
        return answer_of(self.models[self.place], Step("", operation, arguments))


def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lost: str = "") -> Verdict:
    """Trees are made, and looked at by a newer release to which one path of each of them is gone."""
    trees = Trees()

    @contextmanager
    def lines(*_: object) -> Iterator[dict[str, Trees]]:
        yield dict.fromkeys(SIDES, trees)

    monkeypatch.setattr(upgraded, "lines", lines)
    monkeypatch.setattr(upgraded, "clients", lambda *_: {})
    cluster: Any = SimpleNamespace(client_name="client.admin", patience=1.0)
    stage = Stage(cluster, History().recorder("cephfs.upgrade"), Random(7), tmp_path)
    made = upgraded.made(stage)
    if lost:
        answer = trees.ask
        monkeypatch.setattr(trees, "ask", lambda *asked: {k: v for k, v in answer(*asked).items() if k != lost})
    upgraded.looked_at(stage, {}, made, "reef")
    return CHECKS["observations"](stage.recorder.events())


@pytest.mark.slow
def test_a_tree_that_stays_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert judged(monkeypatch, tmp_path).outcome is Outcome.PASS


@pytest.mark.slow
def test_a_file_that_the_newer_release_does_not_find_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdict = judged(monkeypatch, tmp_path, lost="file")
    assert verdict.outcome is Outcome.FAIL
    assert any(
        "paths of before-xattrs that reef on aarch64 finds changed: got ['file']" in line for line in verdict.derivation
    )


def test_servers_that_stand_by_stop_before_the_active_one_is_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    kinds = {"mon.n0": "mon", "mds.n0": "mds", "mds.n1": "mds", "mds.n2": "mds"}
    cluster: Any = SimpleNamespace(
        daemons={name: SimpleNamespace(kind=kind) for name, kind in kinds.items()}, stop=stopped.append, client=None
    )
    monkeypatch.setattr(mds, "states", lambda _: {"n0": "up:standby", "n1": "up:active", "n2": "up:standby"})
    assert rolling.alone_first(cluster) == ["mds.n1", "mds.n0", "mds.n2"]
    assert stopped == ["mds.n0", "mds.n2"]
