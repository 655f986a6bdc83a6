"""Waits and returns beside a profile: settings and patience give the first part, its disks and network the other."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks.service import service
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED
from cephlab.lab.history.history import Basis, History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads.recorded import Load
from cephlab.suites.limits import Copying, copying, wait_until_noticed
from cephlab.suites.resilience.trial import LARGE, RETURN_S, Data, return_bound, returned
from cephlab.tuning.profile import DiskKind
from tests.model_parts import as_file, disks, machine, profile

PATIENCE = 2.0
SETTINGS_S = RETURN_S * PATIENCE
GRACE_S, PEERING_S = 10.0, 3.0
STORED_BYTES = 3e12
"""Three copies on three machines: all of it is on each, and 10 MB/s of network take days."""

SHARED = """
[[requirements]]
name = "node"
kind = "recovery"
fill = 0.7
protection = "replicated:3"
share = 0.25
at_most = "40 h"
"""


def stage_on(tmp_path: Path, pace: float | None, more: str = "") -> Stage:
    """Three machines of a profile, so many times as fast as written there; None: no profile is named."""
    quick = pace or 1.0
    disk = disks("hdd", kind=DiskKind.HDD, count=2, seq_read=1e8 * quick, seq_write=1e8 * quick)
    machines = replace(profile(machine(bandwidth=1e7 * quick, disk=(disk,))), name="slow")
    path = tmp_path / "slow.toml"
    path.write_text(as_file(machines) + more)
    cluster = SimpleNamespace(
        patience=PATIENCE,
        run=SimpleNamespace(home=Home(tmp_path)),
        osd_ids=lambda: [0, 1, 2],
        host_of=lambda osd: SimpleNamespace(name=f"n{osd[-1]}"),
        wait_healthy=lambda timeout_s: None,
        deployment=SimpleNamespace(options={"osd_heartbeat_grace": str(GRACE_S)}),
    )
    named = str(path) if pace is not None else ""
    made = SimpleNamespace(profile=named, changes=(), cluster=cluster, recorder=History().recorder("s"))
    return cast("Stage", made)


def test_without_a_profile_settings_and_patience_alone_decide(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, None)
    copied = copying(stage, STORED_BYTES)
    assert copied == Copying()
    bound = return_bound(stage.cluster, copied)
    assert bound.most == SETTINGS_S
    assert bound.basis is Basis.CORRECTNESS


@pytest.mark.slow
@pytest.mark.parametrize(("pace", "outcome"), [(0.1, Outcome.PASS), (1.0, Outcome.FAIL), (3.0, Outcome.FAIL)])
def test_a_return_that_slower_machines_may_take_is_too_long_for_faster_ones(
    tmp_path: Path, pace: float, outcome: Outcome
) -> None:
    """Judged is twice what machines of the written speed may take: a tenth of it is enough, three times is not."""
    allowed = return_bound(stage_on(tmp_path, 1.0).cluster, copying(stage_on(tmp_path, 1.0), STORED_BYTES)).most
    assert allowed is not None
    stage = stage_on(tmp_path, pace)
    bound = return_bound(stage.cluster, copying(stage, STORED_BYTES))
    stage.recorder.figure("time_to_healthy_s", 2 * allowed, "s", bound)
    assert service(stage.recorder.events()).outcome is outcome
    assert bound.basis is Basis.PROFILE
    assert "a machine of slow, limited by network into the new node" in bound.why
    assert any("rate by network into the new node" in line for line in bound.derivation)


@pytest.mark.slow
def test_the_models_part_is_as_much_longer_as_machines_are_slower(tmp_path: Path) -> None:
    usual, slow, fast = (copying(stage_on(tmp_path, pace), STORED_BYTES).seconds for pace in (1.0, 0.1, 3.0))
    assert slow == pytest.approx(10 * usual, rel=0.01)
    assert fast == pytest.approx(usual / 3, rel=0.01)
    # 3 TB on each of three machines at 9.9 MB/s, and what the model may be off.
    assert usual >= 2 * STORED_BYTES / 10e6


@pytest.mark.slow
def test_bytes_copies_and_the_share_of_recovery_count(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, 1.0)
    whole = copying(stage, STORED_BYTES).seconds
    assert copying(stage, STORED_BYTES / 10).seconds == pytest.approx(whole / 10)
    # An erasure code of 2+1 keeps half as much, and reads twice what it writes, which the network then limits.
    assert copying(stage, STORED_BYTES, EC_2_1).seconds == pytest.approx(whole / 2)
    assert copying(stage_on(tmp_path, 1.0, SHARED), STORED_BYTES).seconds == pytest.approx(whole * 4)


@pytest.mark.slow
def test_megabytes_of_a_lab_hardly_move_a_limit(tmp_path: Path) -> None:
    copied = Data(sizes=LARGE).copied(stage_on(tmp_path, 1.0))
    assert 0 < copied.seconds < 0.2 * SETTINGS_S
    assert Data(REPLICATED).copied(stage_on(tmp_path, 1.0)).seconds < copied.seconds


def test_the_wait_for_health_is_as_long_as_its_limit(tmp_path: Path) -> None:
    stage, waited = stage_on(tmp_path, 1.0), list[float]()
    vars(stage.cluster)["wait_healthy"] = waited.append
    returned(stage, Copying(1000.0, "as measured"), "across_healthy_s")
    (figure,) = (event.data for event in stage.recorder.events())
    assert (figure["metric"], figure["most"]) == ("across_healthy_s", SETTINGS_S + 1000.0)
    assert waited == [pytest.approx((SETTINGS_S + 1000.0) / PATIENCE)]


@pytest.mark.slow
def test_a_wait_may_last_until_what_clients_use_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.suites.limits.own", lambda cluster: cluster)
    load = Load("p", ("c0", "c1"), seed=1, keys=8, sizes=(4096, 1 << 30))
    limits, bases = [], []
    for pace in (None, 1.0, 0.1):
        stage = stage_on(tmp_path, pace)
        wait_until_noticed(stage, PEERING_S, copying(stage, load.most_bytes))
        limits.append(next(event.data["high"] for event in stage.recorder.events()))
        bases.append(next(event.data["basis"] for event in stage.recorder.events()))
    assert bases == ["correctness", "profile", "profile"]
    settings_s = GRACE_S + PEERING_S * PATIENCE
    assert limits[0] == settings_s
    assert limits[2] - settings_s == pytest.approx(10 * (limits[1] - settings_s), rel=0.01)
    assert load.most_bytes == 16 << 30
