"""What the object suite says of a balancer, a dead gateway and a client that are wrong on purpose."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History, Recorder
from cephlab.lab.telemetry.demand import Interval, Role
from cephlab.lab.workloads.s3fleet import Fleet
from cephlab.lab.workloads.s3load import S3Operation, S3Result
from cephlab.suites import limits
from cephlab.suites.object import SCENARIOS, across, balanced, costs, faults, pace, sizes, stand
from tests.suites.test_service_limits import stage_on


def verdict_of(check: str, say: Callable[[Recorder], None]) -> Verdict:
    recorder = History().recorder("object.topic")
    recorder.witness("operations", got=9, least=1)
    say(recorder)
    return CHECKS[check](recorder.events())


def operation(began_s: float, took_s: float, code: str = "", size_bytes: int = 100) -> S3Operation:
    return S3Operation("run", "get", 0, "/b/o", 1, size_bytes, began_s, began_s, began_s + took_s, True, code)


@pytest.mark.parametrize(
    ("grace", "took_s", "outcome"),
    [("20", 25.9, Outcome.PASS), ("20", 26.1, Outcome.FAIL), ("10", 25.9, Outcome.FAIL)],
)
def test_a_request_waits_for_a_dead_osd_as_long_as_the_settings_allow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, grace: str, took_s: float, outcome: Outcome
) -> None:
    """Peering takes 3 s times a patience of 2."""
    stage = stage_on(tmp_path, None)
    stage.cluster.deployment.options["osd_heartbeat_grace"] = grace  # type: ignore[attr-defined]
    monkeypatch.setattr(limits, "own", lambda cluster: cluster)
    monkeypatch.setattr(faults, "index_leader", lambda _: "osd.0")
    monkeypatch.setattr(faults, "gateways", lambda _: {})
    done = S3Result((operation(0.0, 0.1), operation(0.2, took_s)), (), 0, 30.0, 0.1)
    monkeypatch.setattr(faults, "struck", lambda *_: (done, 0.0, 1.0))
    stage.recorder.witness("operations", got=9, least=1)
    faults.index_down(stage)
    assert CHECKS["figures"](stage.recorder.events()).outcome is outcome


BOTH = ("rgw.n0", "rgw.n2")


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"rgw.n0": 60, "rgw.n2": 30}, Outcome.PASS),
        ({"rgw.n0": 90, "rgw.n2": 0}, Outcome.FAIL),
        ({"rgw.n0": 88, "rgw.n2": 2}, Outcome.FAIL),
        ({"rgw.n0": 90}, Outcome.FAIL),  # it does not know the other
    ],
)
def test_a_balancer_that_sends_all_to_one_gateway_is_found(given: dict[str, int], outcome: Outcome) -> None:
    assert verdict_of("witnessed", lambda recorder: balanced.spread(recorder, given, 90, BOTH)).outcome is outcome


LATER = [operation(11 + number / 30, 0.1) for number in range(60)]


@pytest.mark.parametrize(
    ("failed", "outcome"),
    [
        ([operation(9.9, 0.2, "RemoteDisconnected")], Outcome.PASS),
        ([operation(12.0, 0.2, "RemoteDisconnected")], Outcome.FAIL),
        ([operation(3.0, 0.2, "503")], Outcome.FAIL),
    ],
    ids=["in flight", "long after", "before"],
)
def test_a_dead_gateway_may_cost_what_was_in_flight_and_no_more(failed: list[S3Operation], outcome: Outcome) -> None:
    verdict = verdict_of("witnessed", lambda recorder: balanced.cost(recorder, [*failed, *LATER], 10.0, 10.1))
    assert verdict.outcome is outcome


def test_a_kill_that_nobody_asked_anything_after_shows_nothing() -> None:
    verdict = verdict_of("witnessed", lambda recorder: balanced.cost(recorder, LATER[:5], 10.0, 10.1))
    assert verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("opened_s", "outcome"), [(1.5, Outcome.PASS), (0.05, Outcome.FAIL)], ids=["from the due time", "from the send"]
)
def test_a_client_that_counts_from_the_send_is_found(opened_s: float, outcome: Outcome) -> None:
    assert verdict_of("figures", lambda recorder: pace.compare(recorder, opened_s, 0.05)).outcome is outcome


@pytest.mark.parametrize(
    ("late_s", "cpu_s", "outcome"),
    [(0.0, 1.0, Outcome.PASS), (0.3, 1.0, Outcome.INCONCLUSIVE), (0.0, 9.5, Outcome.INCONCLUSIVE)],
    ids=["a good client", "a late one", "a busy one"],
)
def test_times_of_a_client_that_is_slow_itself_show_nothing(late_s: float, cpu_s: float, outcome: Outcome) -> None:
    times = [S3Operation("run", "get", 0, "/b/o", 1, 9, float(n), n + late_s, n + 1.0, True, "") for n in range(20)]
    result = S3Result(tuple(times), (), 0, 10.0, cpu_s)

    def say(recorder: Recorder) -> None:
        recorder.observe("errors", got=result.errors, wanted={}, of=20)
        stand.trusted(recorder, "the load", result)

    assert verdict_of("witnessed", say).outcome is outcome


def test_bytes_of_an_operation_count_where_it_was_under_way() -> None:
    # 4 s of 100 bytes a second: one that fills the first half, four short ones in the second.
    done = [operation(0, 2, size_bytes=200), *(operation(2 + number / 2, 0.5, size_bytes=50) for number in range(4))]
    assert sizes.stretches(done) == pytest.approx([100.0] * 4)


def test_every_scenario_has_a_name_of_its_own() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names) >= 10
    assert {scenario.suite for scenario in SCENARIOS} == {"object"}


def to(endpoint: int, began_s: float, took_s: float, code: str = "") -> S3Operation:
    return S3Operation("run", "get", endpoint, "/b/o", 1, 1, began_s, began_s, began_s + took_s, True, code)


DEAD = [to(1, 11.0, 0.1, "ConnectionRefusedError"), to(1, 14.0, 0.1, "ConnectionRefusedError")]
SERVED = [to(0, 11.5 + number / 10, 0.1) for number in range(15)]
AFTERWARDS = [to(0, 16.0 + number / 10, 0.1) for number in range(15)]


@pytest.mark.parametrize(
    ("operations", "outcome"),
    [
        ([*DEAD, *SERVED], Outcome.PASS),
        ([*DEAD, *SERVED, to(0, 12.0, 0.1, "503")], Outcome.FAIL),
        ([*DEAD, *SERVED, to(1, 25.0, 0.1, "503")], Outcome.FAIL),
        (SERVED, Outcome.INCONCLUSIVE),
        ([*DEAD, *AFTERWARDS], Outcome.INCONCLUSIVE),
    ],
    ids=["its own", "of the other one", "after its return", "none: it was not dead", "the other served only later"],
)
def test_a_dead_balancer_may_cost_its_own_requests_and_no_others(
    operations: list[S3Operation], outcome: Outcome
) -> None:
    verdict = verdict_of("witnessed", lambda recorder: faults.only_its_own(recorder, operations, 1, 10.0, 20.0))
    assert verdict.outcome is outcome


HELD = [to(1, 10.0 + number / 10, 4.8) for number in range(12)]


@pytest.mark.parametrize(
    ("held", "took_s", "outcome"),
    [(HELD, 0.2, Outcome.PASS), (HELD, 9.0, Outcome.FAIL), ([], 0.2, Outcome.INCONCLUSIVE)],
    ids=["its own alone", "the other's too", "none: it did not hang"],
)
def test_a_hanging_balancer_holds_its_own_clients_alone(
    held: list[S3Operation], took_s: float, outcome: Outcome
) -> None:
    operations = [*held, *(to(0, 10.5 + number / 10, took_s) for number in range(15))]
    say = partial(faults.beside_one_that_hangs, operations=operations, victim=1, stopped_s=10.0)
    assert verdict_of("witnessed", say).outcome is outcome


@pytest.mark.parametrize(
    ("took_s", "outcome"), [(0.2, Outcome.PASS), (9.0, Outcome.FAIL)], ids=["passed by", "given to the one that hangs"]
)
def test_a_balancer_that_goes_on_asking_a_gateway_that_hangs_is_found(took_s: float, outcome: Outcome) -> None:
    operations = [to(0, 10 + number / 10, 0.1) for number in range(1, 30)] + [to(0, 12.0, took_s)]
    verdict = verdict_of("witnessed", lambda recorder: faults.passed_by(recorder, operations, 10.0, 15.0))
    assert verdict.outcome is outcome


@pytest.mark.parametrize(
    ("lost", "late_s", "outcome"),
    [({}, 0.1, Outcome.PASS), ({"c1": "died"}, 0.1, Outcome.FAIL), ({}, 3.9, Outcome.INCONCLUSIVE)],
    ids=["all there", "one lost", "one too late"],
)
def test_clients_that_were_lost_or_alone_are_found(lost: dict[str, str], late_s: float, outcome: Outcome) -> None:
    result = S3Result((operation(1.0, 0.1),), (), 0, 1.0, 0.1)
    fleet = Fleet({"c0": result}, lost, {"c0": 0.0}, {"c0": late_s})
    assert verdict_of("witnessed", lambda recorder: across.judge(recorder, fleet, 2)).outcome is outcome


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        ((0.8, 1.3), Outcome.PASS),
        ((2.5, 3.0), Outcome.FAIL),
        ((0.2, 0.4), Outcome.FAIL),
        ((0.9, 9.0), Outcome.INCONCLUSIVE),
    ],
)
def test_a_mix_that_does_not_cost_what_its_parts_do_is_found(ratio: tuple[float, float], outcome: Outcome) -> None:
    measured = Interval(sum(ratio) / 2, *ratio, 5, 0.95)
    assert verdict_of("figures", lambda recorder: costs.judge(recorder, Role.GATEWAY, measured)).outcome is outcome


REFUSED = [to(1, 11.0 + number / 10, 0.1, "503") for number in range(30)]


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (REFUSED, Outcome.PASS),
        ([*REFUSED, to(1, 12.0, 0.1)], Outcome.FAIL),
        ([*REFUSED, to(1, 12.0, 4.0, "503")], Outcome.FAIL),
        ([to(1, 9.0, 5.0), *REFUSED], Outcome.PASS),
        (REFUSED[:5], Outcome.INCONCLUSIVE),
    ],
    ids=["refused", "served although cut off", "made to wait", "asked before it knew", "hardly asked"],
)
def test_a_balancer_that_reaches_no_gateway_has_to_say_so_at_once(asked: list[S3Operation], outcome: Outcome) -> None:
    others = [to(0, 12.0, 4.0)]
    say = partial(faults.refused_at_once, operations=[*asked, *others], victim=1, noticed_s=10.0)
    assert verdict_of("witnessed", say).outcome is outcome


def test_balancers_apart_are_on_machines_without_anything_else() -> None:
    spec = stand.APART.spec("reef")
    apart = [node for node in spec.nodes if node.name in stand.BALANCERS]
    assert [(node.services, bool(node.osds), node.mon) for node in apart] == [(("haproxy",), False, False)] * 2
    assert {node.arch for node in apart} == {node.arch for node in spec.nodes if "rgw" in node.services}
    assert not any("haproxy" in node.services for node in spec.nodes if node not in apart)
