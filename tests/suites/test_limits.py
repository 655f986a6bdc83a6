"""Limits of service as they are written down: each with its figure and its reason, and what copying may take."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.history.history import Basis, History, Recorder
from cephlab.suites import limits
from cephlab.suites.limits import (
    MON_LEASE_S,
    RECORDED,
    Copying,
    copying,
    no_errors,
    stop_noted,
    until_noticed,
    wait_until_noticed,
)
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import load_hardware
from cephlab.tuning.recovery import recovery_time
from tests.model_parts import as_file, disks, machine, profile
from tests.suites.test_service_limits import GRACE_S, PATIENCE, PEERING_S, SHARED, stage_on

FACTOR = 2.5


def noted(recorder: Recorder) -> dict[str, Any]:
    """The one event of a history."""
    [event] = recorder.events()
    return {"kind": event.kind, **event.data}


def test_clients_may_have_no_error() -> None:
    recorder = History().recorder("s")
    no_errors(recorder, "one OSD is stopped")
    why = "one OSD is stopped"
    wanted = {"kind": "limit", "metric": "client_errors", "high": 0, "unit": "", "why": why, "basis": "correctness"}
    assert noted(recorder) == wanted


def test_a_figure_that_is_recorded_only_has_no_limit() -> None:
    assert (RECORDED.judges, RECORDED.basis) == (False, Basis.NOTED)


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is trusted to FACTOR for recovery, by what was published and by profiles of the user's own."""
    own = tmp_path / "profiles" / "test.toml"
    own.parent.mkdir()
    own.write_text(as_file(profile(machine(count=7, disk=(disks(),)))))

    def factor(demands: Sequence[object], find: Callable[[str], Profile]) -> float:
        assert tuple(demands) == ()
        assert find("test").node_count == 7
        return FACTOR

    monkeypatch.setattr(limits, "recovery_factor", factor)


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("machines", "kind", "more", "part", "given"),
    [
        (3, REPLICATED, "", 3e12, {"nodes": 3}),
        (3, EC_2_1, "", 1.5e12, {"nodes": 3, "k": 2}),
        (3, REPLICATED, SHARED, 3e12, {"nodes": 3, "share": 0.25}),
        (2, REPLICATED, "", 4.5e12, {"nodes": 2}),
        # There is nothing to copy from on a single machine, and the model needs a second.
        (1, REPLICATED, "", 9e12, {"nodes": 2}),
    ],
)
def test_copying_may_take_what_the_model_says_times_its_factor(
    tmp_path: Path, machines: int, kind: PoolKind, more: str, part: float, given: dict[str, Any]
) -> None:
    stage = stage_on(tmp_path, 1.0, more)
    vars(stage.cluster)["host_of"] = lambda osd: SimpleNamespace(name=f"n{int(osd[-1]) % machines}")
    made = recovery_time(load_hardware(tmp_path / "slow.toml").profile, part, **given)
    limit = copying(stage, 3e12, kind)
    assert limit.seconds == pytest.approx(made.seconds * FACTOR)
    assert limit.basis is Basis.PROFILE
    assert limit.derivation == tuple(made.derivation.lines())
    assert f" s for copying {part / 2**40:.2f} TiB on a machine of slow, limited by {made.limit}; " in limit.why
    assert limit.why.endswith("trusted to a factor of 2.5")


def test_without_a_profile_copying_has_no_time_and_no_arithmetic(tmp_path: Path) -> None:
    limit = copying(stage_on(tmp_path, None), 3e12)
    assert (limit.seconds, limit.derivation, limit.basis) == (0.0, (), Basis.CORRECTNESS)


def test_a_wait_is_limited_by_what_notices_peers_and_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_on(tmp_path, None)

    def own(cluster: Cluster) -> Cluster:
        assert cluster is stage.cluster
        return cluster

    monkeypatch.setattr(limits, "own", own)
    wait_until_noticed(stage, PEERING_S, Copying(100.0, "as measured"))
    assert noted(stage.recorder) == {
        "kind": "limit",
        "metric": "longest_wait_s",
        "high": GRACE_S + PEERING_S * PATIENCE + 100.0,
        "unit": "s",
        "why": "osd_heartbeat_grace 10 s, then 3 s of peering times a patience of 2; as measured",
        "basis": "profile",
    }


def test_a_monitor_that_fails_with_an_osd_delays_the_notice_by_two_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "own", lambda cluster: cluster)
    cluster = stage_on(tmp_path, None).cluster
    alone = until_noticed(cluster, PEERING_S, Copying())
    assert alone.most is not None
    with_monitor = until_noticed(cluster, PEERING_S, Copying(), mon_lost=True)
    assert with_monitor.most == alone.most + 2 * MON_LEASE_S
    assert "two mon_lease 10 s" in with_monitor.why
    cast("Any", cluster).deployment.options["mon_lease"] = "2"
    assert until_noticed(cluster, PEERING_S, Copying(), mon_lost=True).most == alone.most + 4.0


@pytest.mark.parametrize("stops", [True, False])
def test_a_daemon_that_had_to_be_killed_is_a_defect(stops: bool) -> None:
    asked: list[str] = []

    def stop_or_kill(name: str) -> bool:
        asked.append(name)
        return stops

    recorder = History().recorder("s")
    stop_noted(cast("Cluster", SimpleNamespace(stop_or_kill=stop_or_kill)), recorder, "osd.3")
    assert asked == ["osd.3"]
    seen = "it did not stop in 30 s"
    killed = {"kind": "defect", "daemon": "osd.3", "seen": seen, "done": "killed"}
    assert [{"kind": event.kind, **event.data} for event in recorder.events()] == ([] if stops else [killed])
