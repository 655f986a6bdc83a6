"""Faults as values: chosen by seed alone, healed on every way out, told to the history, refused where impossible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults import FAULTS, Layout, Sign, aimed, inflict, look_for, obstacle, refusal
from cephlab.lab.faults import fault as fault_module
from cephlab.lab.faults.daemons import FlappingOsd, StopDaemon
from cephlab.lab.faults.full import Level, lowered
from cephlab.lab.faults.power import PowerCut
from cephlab.lab.history.history import History, Recorder, data_of
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.spec.clusterspec import Capability

THREE = Layout(
    {name: (f"mgr.{name}", f"mon.{name}", f"osd.{index}") for index, name in enumerate(("n0", "n1", "n2"))}, "n0"
)
ONE_MON = Layout({"n0": ("mgr.n0", "mon.n0", "osd.0"), "n1": ("osd.1",)}, "n0")


def recorder() -> Recorder:
    return History().recorder("demo")


def a_cluster() -> Cluster:
    """As much of one as `inflict` looks at."""
    nodes = ["n0"]
    told = {"provider": LocalProvider(), "provider_name": LocalProvider.name, "load_nodes": lambda: nodes}
    return cast("Cluster", SimpleNamespace(**told, hosts={"n0": None}, daemons={}))


class Demo:
    """A fault that writes down what becomes of it."""

    name: ClassVar[str] = "demo"
    needs: ClassVar[frozenset[Capability]] = frozenset()
    in_labs: ClassVar[bool] = False
    target = "n0"

    def __init__(self, got: float = 1, breaks: bool = True) -> None:
        self.got = got
        self.breaks = breaks
        self.said: list[str] = []

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Demo | None:
        return cls()

    def nodes(self, layout: Layout) -> frozenset[str]:
        return frozenset({"n0"})

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        try:
            self.said.append("harm")
            if not self.breaks:
                raise LabBroken("it does not break")
            yield
        finally:
            self.said.append("heal")

    def sign(self, cluster: Cluster) -> Sign:
        return Sign("things seen", self.got)


def test_a_fault_without_a_target_is_trouble_of_the_lab() -> None:
    with pytest.raises(LabBroken, match="there is no target for power-cut in this cluster") as refused:
        aimed(PowerCut, a_cluster(), Random(1))
    assert refused.value.detail == "layout: {'n0': ()}"
    assert isinstance(aimed(Demo, a_cluster(), Random(1)), Demo)


def phases(events: Recorder) -> list[str]:
    return [data["phase"] for data in data_of(events.events(), "fault")]


def test_a_fault_holds_inside_its_block_and_the_history_says_so() -> None:
    fault, told = Demo(), recorder()
    with inflict(fault, a_cluster(), told):
        assert fault.said == ["harm"]
    assert fault.said == ["harm", "heal"]
    assert phases(told) == ["inflicting", "broken", "seen", "healing", "healed"]
    seen = next(event for event in told.events() if event.data.get("phase") == "seen")
    assert (seen.data["fault"], seen.data["target"], seen.data["nodes"]) == ("demo", "n0", ["n0"])


def test_an_error_inside_heals_and_passes() -> None:
    fault, told = Demo(), recorder()
    with pytest.raises(ZeroDivisionError), inflict(fault, a_cluster(), told):
        raise ZeroDivisionError
    assert fault.said == ["harm", "heal"]
    assert phases(told)[-1] == "healing"


def test_a_fault_that_breaks_down_half_way_is_healed() -> None:
    fault, told = Demo(breaks=False), recorder()
    with pytest.raises(LabBroken, match="it does not break"), inflict(fault, a_cluster(), told):
        raise AssertionError("the block must not run")
    assert fault.said == ["harm", "heal"]
    assert phases(told) == ["inflicting"]


class Stubborn:
    """A daemon that ends on SIGKILL alone."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.got: list[str] = []

    def stop(self, *, patience: float = 1.0) -> None:
        self.got.append("SIGTERM")
        raise LabBroken("it did not stop after SIGTERM")

    def kill(self) -> None:
        self.got.append("SIGKILL")

    def start(self) -> None:
        self.got.append("start")


def a_cluster_with(daemon: Stubborn) -> Cluster:
    """A cluster with this daemon, on which the verbs are the real ones."""
    cluster = a_cluster()
    vars(cluster).update(patience=1.0, daemon=lambda _: daemon, daemons_changed=lambda: None)
    for verb in ("stop", "kill", "start", "stop_or_kill"):
        vars(cluster)[verb] = partial(getattr(Cluster, verb), cluster)
    return cluster


def test_a_metadata_server_that_does_not_stop_is_killed_and_the_history_has_the_defect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StopDaemon, "sign", lambda *_: Sign("daemons missed", 1))
    monkeypatch.setattr(StopDaemon, "nodes", lambda *_: frozenset({"n0"}))
    daemon, told = Stubborn("mds"), recorder()
    with inflict(StopDaemon("mds.n0"), a_cluster_with(daemon), told):
        assert daemon.got == ["SIGTERM", "SIGKILL"]
    assert daemon.got[-1] == "start"
    [defect] = data_of(told.events(), "defect")
    assert (defect["target"], defect["seen"]) == ("mds.n0", "it did not end after SIGTERM and was killed")


def test_any_other_daemon_has_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StopDaemon, "nodes", lambda *_: frozenset({"n0"}))
    daemon, told = Stubborn("osd"), recorder()
    with (
        pytest.raises(LabBroken, match="did not stop after SIGTERM"),
        inflict(StopDaemon("osd.0"), a_cluster_with(daemon), told),
    ):
        raise AssertionError("the block must not run")
    assert daemon.got == ["SIGTERM", "start"]


def test_a_fault_that_nobody_saw_leaves_its_scenario_inconclusive() -> None:
    told = recorder()
    told.observe("sum", got=sum((1, 1)), wanted=2)
    with inflict(Demo(got=0), a_cluster(), told):
        pass
    verdict = CHECKS["witnessed"](told.events())
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "demo of n0: things seen" in verdict.reason


def test_what_a_provider_cannot_do_is_refused_before_anything_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    fault, told = Demo(), recorder()
    monkeypatch.setattr(Demo, "needs", frozenset({Capability.OWN_KERNEL}))
    refusal = "the local provider cannot do demo: it has no own-kernel"
    with pytest.raises(Unavailable, match=refusal), inflict(fault, a_cluster(), told):
        raise AssertionError("the block must not run")
    assert fault.said == []
    assert told.events() == ()


@pytest.mark.parametrize("kind", FAULTS.values(), ids=lambda kind: str(kind.name))
class TestEveryKind:
    def test_has_its_name_and_says_what_it_is(self, kind: Any) -> None:
        assert FAULTS[kind.name] is kind
        assert (kind.__doc__ or "").strip()
        assert kind.needs <= frozenset(Capability)

    def test_its_target_is_chosen_by_the_seed_alone(self, kind: Any) -> None:
        aimed = [kind.aim(THREE, Random(seed)) for seed in range(40)]
        assert aimed == [kind.aim(THREE, Random(seed)) for seed in range(40)]
        assert all(fault is not None and fault.target for fault in aimed)

    def test_it_strikes_nodes_that_there_are(self, kind: Any) -> None:
        for seed in range(20):
            assert kind.aim(THREE, Random(seed)).nodes(THREE) <= set(THREE.nodes)

    def test_it_spares_a_sole_monitor_unless_it_strikes_everything(self, kind: Any) -> None:
        for seed in range(20):
            fault = kind.aim(ONE_MON, Random(seed))
            if fault is not None and kind.name != "kill-everything":
                assert "mon.n0" not in fault.target
                assert kind.name != "kill-node" or fault.node == "n1"

    def test_it_has_no_target_where_there_is_no_daemon(self, kind: Any) -> None:
        assert kind.aim(Layout({"n0": ()}, "n0"), Random(1)) is None or kind.name == "kill-everything"

    def test_it_is_refused_where_a_capability_lacks(self, kind: Any) -> None:
        reason = obstacle(kind, frozenset(), "bare")
        assert (reason is None) == (not kind.needs)
        assert obstacle(kind, frozenset(Capability), "able") is None


@pytest.mark.parametrize("error", [LabBroken("the node does not answer"), KeyError("osds")])
def test_whatever_ends_the_flapping_is_raised_once_the_osd_runs_again(error: Exception) -> None:
    def mon(_prefix: str) -> None:
        raise error

    started: list[str] = []
    cluster = SimpleNamespace(client=SimpleNamespace(mon=mon), start=started.append)
    with pytest.raises(type(error)), FlappingOsd("osd.0").broken(cast("Cluster", cluster)):
        pass
    assert started == ["osd.0"]


REMOTE = {
    "flapping-osd",
    "kill-daemon",
    "kill-everything",
    "kill-together",
    "pause-daemon",
    "read-errors",
    "stop-daemon",
}
"""What an existing cluster allows: systemd and the daemons themselves do it."""


def an_attached_cluster() -> Cluster:
    nothing = cast("Any", None)
    return AttachedCluster(nothing, nothing, SshProvider(), {}, {}, nothing, nothing, "", nothing)


def test_an_existing_cluster_suffers_only_what_systemd_and_daemons_do() -> None:
    refused = {name: refusal(kind, an_attached_cluster()) for name, kind in FAULTS.items()}
    assert {name for name, reason in refused.items() if reason is None} == REMOTE
    assert all("the attached cluster" in str(refused[name]) for name, kind in FAULTS.items() if kind.in_labs)
    of_labs = {name for name, kind in FAULTS.items() if refusal(kind, a_cluster()) is None}
    assert {name for name, kind in FAULTS.items() if kind.in_labs} | REMOTE <= of_labs


def test_what_only_labs_lend_is_refused_before_anything_is_broken() -> None:
    class OfLabs(Demo):
        in_labs: ClassVar[bool] = True

        @classmethod
        def aim(cls, layout: Layout, rng: Random) -> OfLabs | None:
            return cls()

    demo = OfLabs()
    with (
        pytest.raises(Unavailable, match="not permitted on the attached cluster"),
        inflict(demo, an_attached_cluster(), recorder()),
    ):
        pytest.fail("it was inflicted")
    assert demo.said == []


def test_targets_differ_with_the_seed() -> None:
    killed = {cast("Any", FAULTS["kill-daemon"].aim(THREE, Random(seed))).daemon for seed in range(60)}
    assert killed == {name for names in THREE.nodes.values() for name in names}


@pytest.mark.parametrize("level", list(Level))
def test_thresholds_stay_in_order_and_mean_the_level(level: Level) -> None:
    before = {Level.NEARFULL: 0.85, Level.BACKFILLFULL: 0.9, Level.FULL: 0.95}
    used = 0.004
    thresholds = lowered(before, level, used)
    assert thresholds[Level.NEARFULL] < thresholds[Level.BACKFILLFULL] < thresholds[Level.FULL]
    passed = [each for each in Level if thresholds[each] < used]
    assert passed[-1] is level


def test_looking_ends_with_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_module, "_LOOK_S", 0.0)
    values = iter([0, 1, 3])
    assert look_for("things", lambda: next(values), least=2) == Sign("things", 3, 2)
    assert look_for("things", lambda: 0, timeout_s=0.0).got == 0
