"""What a block changed is changed back as far as possible, also after Ceph refused a step of that."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.cluster import pools
from cephlab.lab.faults.full import FullDisks, Level
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import exports, messenger, monitors, recovery
from cephlab.suites.migration import trial

OSDS = {0: Arch.X86_64, 1: Arch.AARCH64, 2: Arch.AARCH64, 3: Arch.AARCH64}


@dataclass
class RefusingCluster:
    """A cluster that refuses, once it is told to, whatever would change it. sent: what it was asked since."""

    refuses: bool = False
    sent: list[str] = field(default_factory=list)
    patience: float = 1.0

    @property
    def client(self) -> Any:
        return SimpleNamespace(mon=self.mon, mgr=self.mon, tell=lambda osd, *words, **more: self.act(osd, *words, more))

    def act(self, *words: object) -> None:
        if self.refuses:
            self.sent.append(" ".join(map(str, words)))
            raise CephCommandFailed("mon", {"prefix": self.sent[-1]}, -13, "access denied")

    def mon(self, prefix: str, **arguments: Any) -> Any:
        if prefix == "osd dump":
            return {f"{level}_ratio": 0.9 for level in Level}
        if prefix == "osd df":
            return {"nodes": [{"kb_used": 1, "kb": 10}]}
        return self.act(prefix, arguments)

    def start(self, daemon: str) -> None:
        self.act("start", daemon)

    def stop(self, _daemon: str) -> None: ...

    def wait_map(self, _osds: object) -> None: ...

    def wait_healthy(self) -> None: ...

    def osd_ids(self, arch: Arch | None = None) -> list[int]:
        return [osd for osd, its in OSDS.items() if arch in (None, its)]


def without_backfill(cluster: Any) -> AbstractContextManager[Any]:
    running: Any = SimpleNamespace(cluster=cluster, step=lambda _title: nullcontext())
    return trial.without_backfill(running)


def stopped(cluster: Any) -> AbstractContextManager[Any]:
    return exports.stopped(cluster, [cast("Any", SimpleNamespace(name=f"osd.{osd}", id=str(osd))) for osd in OSDS])


BLOCKS: dict[str, tuple[Callable[[Any], AbstractContextManager[Any]], list[str]]] = {
    "led-by": (
        lambda cluster: pools.led_by(cluster, Arch.X86_64),
        [f"osd primary-affinity {{'id': {osd}, 'weight': 1.0}}" for osd in (1, 2, 3)],
    ),
    "full": (
        lambda cluster: FullDisks().broken(cluster),
        [f"osd set-{level}-ratio {{'ratio': 0.9}}" for level in reversed(Level)],
    ),
    "short-logs": (
        recovery.short_logs,
        [f"osd.{osd} config unset {{'var': '{key}'}}" for osd in OSDS for key, _ in recovery.SHORT_LOGS],
    ),
    "backfill": (without_backfill, [f"osd unset {{'key': '{flag}'}}" for flag in trial.FLAGS]),
    "rewired": (
        lambda cluster: messenger.rewired(cluster, {"a": "1", "b": "2"}),
        [f"config rm {{'who': 'global', 'name': '{name}'}}" for name in "ab"],
    ),
    "leaders": (
        monitors.chosen_leaders,
        [
            "mon rm disallowed_leader {'name': 'a'}",
            "mon rm disallowed_leader {'name': 'b'}",
            "mon set election_strategy {'strategy': 'classic'}",
        ],
    ),
    "stopped": (stopped, [f"start osd.{osd}" for osd in OSDS]),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_every_step_back_is_tried_and_every_refusal_is_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "wait_clean", lambda _: None)
    monkeypatch.setattr(messenger, "reconnect", lambda _: None)
    monkeypatch.setattr(messenger, "await_option", lambda *_: None)
    monkeypatch.setattr(monitors, "barred_leaders", lambda _: ["a", "b"])
    monkeypatch.setattr(monitors, "all_in_quorum", lambda _: None)
    block, wanted = BLOCKS[name]
    cluster = RefusingCluster()
    with pytest.raises(CephCommandFailed) as caught, block(cluster):
        cluster.refuses = True
    assert cluster.sent == wanted
    assert [step for step in wanted if step not in str(caught.value)] == []
