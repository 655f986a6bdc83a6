"""The resilience suite as a list: every fault is in it, and its menus hold what a provider can do."""

import errno
import re
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, LabError, NotReached
from cephlab.lab.ceph.client import CephCommandFailed, RadosError
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.service import service
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.checks.witnessed import witnessed, witnesses
from cephlab.lab.faults import FAULTS
from cephlab.lab.faults.fault import EVENT
from cephlab.lab.history import operations
from cephlab.lab.history.history import Basis, Bound, History, Recorder
from cephlab.lab.history.operations import Act, Ended, Operation
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability
from cephlab.suites import limits
from cephlab.suites.limits import Copying
from cephlab.suites.resilience import SCENARIOS, monitors, osds, trial
from cephlab.suites.resilience.crash import asked
from cephlab.suites.resilience.full import refusal_s
from cephlab.suites.resilience.monitors import LookBeyond, stale
from cephlab.suites.resilience.soak import EXCEED, menu_for
from tests.fake_clock import VirtualClock
from tests.fake_stage import stage_of
from tests.lab.faults.test_faults import REMOTE, a_cluster, an_attached_cluster

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.mark.parametrize("kind", FAULTS.values(), ids=lambda kind: str(kind.name))
def test_every_fault_is_inflicted_by_a_scenario_that_needs_what_it_needs(kind: Any) -> None:
    assert BY_NAME[f"resilience.fault[{kind.name}]"].needs == kind.needs


def test_every_cluster_that_is_struck_is_mixed() -> None:
    assert {
        scenario.name for scenario in SCENARIOS if set(scenario.topology.spec(DEFAULT_RELEASE).archs) != set(Arch)
    } == set()


def test_the_quick_tier_has_some_of_each() -> None:
    quick = {scenario.name.partition("[")[0] for scenario in SCENARIOS if scenario.tier is Tier.QUICK}
    assert quick == {
        "resilience.crash-everything",
        "resilience.ec-node-failure",
        "resilience.fault",
        "resilience.full-cluster",
        "resilience.thrash",
    }


def test_every_scenario_is_judged_by_more_than_its_end() -> None:
    assert {scenario.check for scenario in SCENARIOS} <= {"recorded", "witnessed"}


def test_menus_hold_what_the_provider_can_do() -> None:
    cluster = a_cluster()
    names = [kind.name for kind in menu_for(cluster, 1)]
    assert "kill-daemon" in names
    assert not {kind.name for kind in FAULTS.values() if Capability.SLOW_NETWORK in kind.needs} & set(names)
    assert {kind.name for kind in menu_for(cluster, 2)} == set(EXCEED)


def test_the_menu_of_an_existing_cluster_has_nothing_that_it_refuses() -> None:
    assert {kind.name for kind in menu_for(an_attached_cluster(), 1)} == REMOTE
    assert {kind.name for kind in menu_for(an_attached_cluster(), 2)} == REMOTE & set(EXCEED)


def test_a_split_has_clients_on_both_sides() -> None:
    spec = BY_NAME["resilience.split-architectures"].topology.spec(DEFAULT_RELEASE)
    bare = [node for node in spec.nodes if not (node.osds or node.mon or node.mgr)]
    assert {node.arch for node in bare} == set(Arch)


@pytest.mark.parametrize(
    ("wrote", "read", "told"),
    [
        (2, 2, []),
        (2, None, []),  # nothing is said: it waits
        (2, 3, []),  # newer than what had been acknowledged when it was asked for
        (2, 1, ["beyond.0: got 1, 2 was acknowledged"]),
    ],
)
def test_an_old_answer_beyond_a_cut_is_found(wrote: int, read: int | None, told: list[str]) -> None:
    assert stale([LookBeyond("beyond.0", wrote, read)]) == told


class Asked:
    """A new client. error: what its first command raises."""

    def __init__(self, error: LabError | None) -> None:
        self.host = SimpleNamespace(name="n0")
        self.error = error

    def call(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        pass

    def mon(self, _prefix: str) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (None, True),
        (RadosError("about", "TimedOut", errno.ETIMEDOUT, ""), False),
        (CephCommandFailed("mon", {}, -errno.ETIMEDOUT, ""), False),
    ],
)
def test_only_a_timeout_is_no_answer(error: LabError | None, answered: bool) -> None:
    client = Asked(error)
    cluster = SimpleNamespace(client=client, new_client=lambda _node, options: client, patience=1.0)
    stage = SimpleNamespace(recorder=History().recorder("s"))
    assert monitors.answers(cast("Any", stage), cast("Any", cluster)) is answered


@pytest.mark.parametrize(
    "error",
    [
        RadosError("about", "PermissionError", errno.EACCES, ""),
        CephCommandFailed("mon", {"prefix": "osd sat"}, -errno.EINVAL, "command not known"),
        CephTrouble("n0 has no program python3"),
    ],
)
def test_any_other_error_says_nothing_about_the_monitors(error: LabError) -> None:
    client = Asked(error)
    cluster = SimpleNamespace(client=client, new_client=lambda _node, options: client, patience=1.0)
    with pytest.raises(type(error)):
        monitors.answers(cast("Any", SimpleNamespace(recorder=History().recorder("s"))), cast("Any", cluster))


class Sides:
    """A cluster whose minority side has osd.1, and the client there. cut: whether it is split; blind: reads nothing."""

    def __init__(self, *, cut: bool = True, blind: bool = False) -> None:
        self.cut, self.blind = cut, blind
        self.value = b"0"
        self.client, self.patience = self, 0.0  # the first answer counts

    def osd_ids(self) -> list[int]:
        return [0, 1]

    def host_of(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name={"osd.0": "n0", "osd.1": "n1"}[name])

    def mon(self, _prefix: str, **_: str) -> dict[str, int]:
        return {"acting_primary": 0 if self.cut else 1}

    def write_full(self, _pool: str, _name: str, value: bytes) -> None:
        self.value = value

    def read(self, _pool: str, _name: str) -> bytes:
        if self.blind:
            raise RadosError("read", "TimedOut", errno.ETIMEDOUT, "")
        return self.value


def beyond(sides: Sides) -> tuple[monitors.Beyond, Recorder]:
    recorder = History().recorder("s")
    stage = cast("Any", SimpleNamespace(cluster=sides, recorder=recorder))
    return monitors.Beyond(stage, "pool", ["n1"], ["beyond.0", "beyond.1"], cast("Any", sides)), recorder


@pytest.mark.parametrize(("cut", "outcome"), [(True, Outcome.PASS), (False, Outcome.INCONCLUSIVE)])
def test_a_split_that_moves_no_primary_shows_nothing(cut: bool, outcome: Outcome) -> None:
    looker, recorder = beyond(Sides(cut=cut))
    looker.look()
    looker.look_again()
    assert witnessed(recorder.events()).outcome is outcome


def test_who_sees_nothing_stale_must_be_able_to_see() -> None:
    sides = Sides(blind=True)
    looker, recorder = beyond(sides)
    looker.look()
    assert observations(recorder.events()).outcome is Outcome.PASS
    with pytest.raises(NotReached):
        looker.look_again()
    sides.blind, sides.value = False, b"0"
    looker.look_again()
    assert observations(recorder.events()).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("there", "damaged", "outcome"),
    [(["a"], [], Outcome.PASS), (["a"], ["2.0"], Outcome.FAIL), ([], [], Outcome.INCONCLUSIVE)],
)
def test_copies_of_no_objects_always_agree(
    monkeypatch: pytest.MonkeyPatch, there: list[str], damaged: list[str], outcome: Outcome
) -> None:
    monkeypatch.setattr(trial, "deep_scrub", lambda *_: ["2.0"])
    monkeypatch.setattr(trial, "rados_json", lambda *_: damaged)
    cluster = SimpleNamespace(client=SimpleNamespace(list_objects=lambda _pool: there))
    recorder = History().recorder("s")
    trial.agreed(cast("Any", SimpleNamespace(cluster=cluster, recorder=recorder)), "pool")
    assert witnessed(recorder.events()).outcome is outcome


@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
def test_copies_are_compared_before_the_images_of_a_load_are_removed(
    monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    done: list[str] = []
    load = SimpleNamespace(prepare=lambda: None, running=nullcontext, completed=lambda: 99)
    load.verify, load.clean = (partial(done.append, word) for word in ("read back", "remove"))
    for name, made in {
        "new_load": lambda *_, **__: load,
        "agreed": lambda *_: done.append("scrub"),
        "inflict": lambda *_: nullcontext(),
        "healthy_s": lambda *_: 1.0,
        "return_bound": lambda *_: Bound(basis=Basis.NOTED),
        **dict.fromkeys(("under_way", "goes_on", "returned", "linger"), lambda *_: 0),
    }.items():
        monkeypatch.setattr(trial, name, made)
    data = SimpleNamespace(pool=lambda _stage: nullcontext("pool"), copied=lambda _stage: None, sizes=(), of="blocks")
    stage = cast("Any", SimpleNamespace(cluster=None, recorder=History().recorder("s"), rng=None))
    if again:
        trial.again_and_again(
            stage, cast("Any", None), 1, cast("Any", data), before_s=(0.0, 0.0), meanwhile=lambda: None
        )
        assert witnesses(stage.recorder.events()).outcome is Outcome.INCONCLUSIVE  # no fault met an operation
    else:
        with trial.loaded(stage, cast("Any", data)):
            pass
    assert done == ["read back", "scrub", "remove"]


@pytest.mark.parametrize(("healed", "outcome"), [(30, Outcome.PASS), (25, Outcome.INCONCLUSIVE)])
def test_a_load_that_only_waits_until_all_is_healed_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, healed: int, outcome: Outcome
) -> None:
    """It goes on in the end in either case."""
    done = iter([healed, 99])
    load = SimpleNamespace(running=nullcontext, completed=lambda: next(done))
    load.prepare = load.verify = load.clean = lambda: None
    monkeypatch.setattr(trial, "new_load", lambda *_, **__: load)
    monkeypatch.setattr(trial, "under_way", lambda _: 25)
    monkeypatch.setattr(trial, "goes_on", lambda load: load.completed())
    for name in ("agreed", "returned"):
        monkeypatch.setattr(trial, name, lambda *_: None)
    data = SimpleNamespace(pool=lambda _stage: nullcontext("pool"), copied=lambda _stage: None, sizes=(), of="objects")
    stage = SimpleNamespace(cluster=None, recorder=History().recorder("s"))
    with trial.loaded(cast("Any", stage), cast("Any", data)):
        pass
    assert witnesses(stage.recorder.events()).outcome is outcome


def test_operations_are_counted_that_were_under_way_while_a_fault_held() -> None:
    clock = VirtualClock()
    recorder = History(clock=clock).recorder("s")
    for at_s, phase in ((9.0, "inflicting"), (10.0, "broken"), (12.0, "healing"), (30.0, "broken"), (31.0, "healing")):
        clock.now = at_s
        recorder.record(EVENT, fault="f", target="t", nodes=[], phase=phase)
    times = [(9.0, 9.9), (9.5, 12.5), (11.0, 11.5), (11.9, None), (12.1, 13.0)]
    load = [Operation("load", "c0", 0, Act.READ, 0, 1, began_s, ended_s, Ended.OK) for began_s, ended_s in times]
    for data in operations.pack([*load, Operation("load", "c0", 0, Act.FINAL, 0, 1, 10.0, 11.0, Ended.OK)]):
        recorder.record(operations.EVENT, **data)
    assert trial.operations_met(recorder.events()) == [3, 1]


@pytest.mark.parametrize(("waits_s", "outcome"), [(69.0, Outcome.PASS), (71.0, Outcome.FAIL)])
def test_one_client_that_is_stuck_fails_although_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, waits_s: float, outcome: Outcome
) -> None:
    monkeypatch.setattr(limits, "own", lambda cluster: cluster)
    deployment = SimpleNamespace(options={"osd_heartbeat_grace": "20"})
    stage = stage_of(SimpleNamespace(patience=2.0, deployment=deployment))
    osds.limit_stall(stage, Copying())
    done = [Operation("load", "c0", 1, Act.READ, 1, 1, at_s, at_s + 1.0, Ended.OK) for at_s in range(100)]
    stuck = Operation("load", "c0", 0, Act.WRITE, 0, 1, 1.0, 1.0 + waits_s, Ended.OK)
    for data in operations.pack([*done, stuck]):
        stage.recorder.record(operations.EVENT, **data)
    assert service(stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(("slowest_s", "wanted"), [(0.0, 5), (0.05, 5), (0.51, 6), (8.0, 80)])
def test_a_write_counts_as_held_back_by_what_others_took(slowest_s: float, wanted: int) -> None:
    assert refusal_s(slowest_s) == wanted


def test_fifty_rounds_may_be_cut_into_runs_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(Tier.FULL) == 50
    monkeypatch.setenv("CEPHLAB_CRASH_ROUNDS", "10")
    assert asked(Tier.FULL) == 10


def test_a_bad_block_is_expected_only_where_one_was_made() -> None:
    said = "_verify_csum bad crc32c/0x1000 checksum at blob offset 0x0, got 0x1, expected 0x2"
    allowing = {
        scenario.name for scenario in SCENARIOS if any(re.search(pattern, said) for pattern in scenario.expects)
    }
    damaging = {f"resilience.fault[{name}]" for name in ("bit-rot", "missing-object", "read-errors")}
    assert allowing == {*damaging, "resilience.thrash"}
