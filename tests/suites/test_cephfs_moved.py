"""CephFS on a machine that gives way, and a standby that follows the journal, on models of a cluster."""

from contextlib import nullcontext
from itertools import repeat
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import NotReached
from cephlab.lab.checks import Outcome
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage, seeded
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs import failover, moved
from tests.fake_stage import stage_of


@pytest.mark.parametrize(("each", "outcome"), [(5, Outcome.PASS), (0, Outcome.INCONCLUSIVE)])
def test_a_standby_that_is_to_follow_the_journal_and_does_not_is_found(
    monkeypatch: pytest.MonkeyPatch, each: int, outcome: Outcome
) -> None:
    counted = iter(range(700, 1000, each) if each else repeat(700))

    def tell(_cluster: object, target: str, *words: str) -> dict[str, dict[str, int]]:
        assert (target, words) == ("mds.n2", ("perf", "dump"))
        return {"mds_log": {"replayed": next(counted)}}

    monkeypatch.setattr(failover, "tell", tell)
    monkeypatch.setattr(failover, "states", lambda _: {"n0": "up:active", "n2": "up:standby-replay"})
    stage = stage_of(SimpleNamespace(client=None, patience=1e-3, wait=lambda _ready, what: None))
    failover.follows(stage)
    assert witnesses(stage.recorder.events()).outcome is outcome


class Standbys:
    """Metadata servers of a cluster, and how many standbys it wants: the most that it had, until it is told."""

    def __init__(self) -> None:
        self.servers, self.wanted = [f"mds.{moved.OLD}"], 0
        self.client = self

    def mon(self, command: str, **arguments: Any) -> Any:
        if command == "fs set" and arguments["var"] == "standby_count_wanted":
            self.wanted = int(arguments["val"])
        return {"arch": Arch.AARCH64.value}

    def wait_healthy(self) -> None:
        self.wanted = max(self.wanted, len(self.servers) - 1)
        if len(self.servers) - 1 < self.wanted:
            raise NotReached("HEALTH_OK", 90, "MDS_INSUFFICIENT_STANDBY")


def test_a_cluster_that_lost_its_standby_for_good_becomes_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Standbys()
    load = SimpleNamespace(prepare=lambda: None, verify=lambda: None, running=nullcontext)
    old = SimpleNamespace(arch=Arch.X86_64)
    given: dict[str, Any] = {
        "own": lambda same: same,
        "load_of": lambda *_: load,
        "successor": lambda _, arch, name: SimpleNamespace(arch=arch, name=name),
        "add_service": lambda cluster, node, kind: cluster.servers.append(f"{kind}.{node}"),
        "stop_noted": lambda *_: None,
        "remove_service": lambda cluster, name: cluster.servers.remove(name),
        "wait_active": lambda cluster: cluster.servers[-1:],
        "migrate": SimpleNamespace(
            node_spec=lambda *_: old,
            osds_on=lambda *_: [],
            **dict.fromkeys(("add_machine", "add_osds", "power_off", "remove_node"), lambda *_: None),
        ),
        **dict.fromkeys(("client_nodes", "under_way", "goes_on", "scrubbed"), lambda *_: None),
    }
    for name, what in given.items():
        monkeypatch.setattr(moved, name, what)
    recorder = History().recorder("cephfs.migration")
    moved.moved(Stage(cast("Any", cluster), recorder, seeded(1, "moved"), cast("Any", None)))
    assert cluster.servers == [f"mds.{moved.NEW}"]
    [arch] = [event.data for event in recorder.events() if event.kind == "observation"]
    assert arch["got"] == arch["wanted"] == Arch.AARCH64.value
