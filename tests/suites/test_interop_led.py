"""Scenarios that steer who leads: each does what its own tier says, and reads from the OSD that it is about."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import objects, placement, recovery
from cephlab.suites.interop.matrix import counted_operations, led_by_one
from cephlab.suites.interop.objects import SIZES
from tests.fake_osds import OSDS, FakeOsds

FIXED = {*SIZES, "gap"}
SHOWN = [scenario for scenario in objects.SCENARIOS if "client=aarch64,primary=x86_64" in scenario.name]
"""Of each tier and kind of pool one; the others differ only in the architectures."""


def stage_of(cluster: object, scratch: Path, tier: Tier = Tier.QUICK) -> Stage:
    return Stage(cast("Cluster", cluster), History().recorder("interop.x"), random.Random(1), scratch, tier)


def judged(scenario: Scenario, stage: Stage) -> Verdict:
    scenario.run(stage)
    return CHECKS[scenario.check](stage.recorder.events())


@pytest.mark.parametrize("scenario", SHOWN, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("tier", Tier)
def test_a_run_of_either_tier_writes_what_the_scenario_says(scenario: Scenario, tier: Tier, tmp_path: Path) -> None:
    cluster = FakeOsds()
    assert judged(scenario, stage_of(cluster, tmp_path, tier)).outcome is Outcome.PASS
    assert (set(cluster.pool.data) == FIXED) is (scenario.tier is Tier.QUICK)


def test_operations_that_went_elsewhere_make_objects_inconclusive(tmp_path: Path) -> None:
    """Primaries that the map names are no proof that they were asked."""
    of_the_other = next(osd for osd, arch in OSDS.items() if arch is Arch.AARCH64)
    scenario = objects.scenario(Arch.AARCH64, Arch.X86_64, REPLICATED)
    verdict = judged(scenario, stage_of(FakeOsds(elsewhere=of_the_other), tmp_path))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "operations led by x86_64" in verdict.reason


@pytest.mark.parametrize(("wanted", "outcome"), [(True, Outcome.INCONCLUSIVE), (False, Outcome.PASS)])
def test_a_program_without_operations_is_inconclusive_unless_it_has_none(
    wanted: bool, outcome: Outcome, tmp_path: Path
) -> None:
    stage, failed = stage_of(FakeOsds(), tmp_path), list[str]()
    with counted_operations(stage, Arch.X86_64, wanted=wanted):
        stage.recorder.observe("cases that failed", got=failed, wanted=[], of=3)
        stage.recorder.witness("cases", got=3, least=1)
    verdict = CHECKS["witnessed"](stage.recorder.events())
    assert verdict.outcome is outcome
    assert ("client operations led by x86_64 OSDs" in verdict.reason) is wanted


@pytest.mark.parametrize("tier", Tier)
def test_as_many_pgs_are_mapped_as_the_method_says(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    @contextmanager
    def two_sides(*_: object) -> Iterator[dict[Arch, Arch]]:
        yield {arch: arch for arch in Arch}

    def map_pgs(_side: object, *, bits: int, **_: object) -> placement.Mappings:
        asked.append(bits)
        return {}

    monkeypatch.setattr(placement, "sides", two_sides)
    monkeypatch.setattr(placement, "map_pgs", map_pgs)
    for scenario in (scenario for scenario in placement.SCENARIOS if "mappings" in scenario.name):
        asked.clear()
        scenario.run(stage_of(FakeOsds(), tmp_path, tier))
        counts = {placement.TREE.osd_count << bits for bits in asked}
        assert [f" {count} PGs " in scenario.method for count in counts] == [True]


def test_one_osd_leads_and_nobody_is_held_back_afterwards() -> None:
    cluster = FakeOsds(pool_name="p")
    with led_by_one(cast("Cluster", cluster), 1, ("p",)):
        assert {cluster.pg(number).acting_primary for number in range(4)} == {1}
    assert set(cluster.affinity.values()) == {1.0}


def restarted(cluster: FakeOsds, scratch: Path) -> Verdict:
    on = next(
        scenario
        for scenario in recovery.SCENARIOS
        if scenario.name == "interop.recovery-restart[on=x86_64,pool=replicated]"
    )
    return judged(on, stage_of(cluster, scratch))


def test_a_restarted_osd_that_has_everything_passes(tmp_path: Path) -> None:
    assert restarted(FakeOsds(), tmp_path).outcome is Outcome.PASS


def test_what_a_restarted_osd_lacks_is_seen_in_every_pg(tmp_path: Path) -> None:
    """Also in those that another OSD of its architecture would lead."""
    steered = FakeOsds(affinity={0: 1.0, 1: 1.0, 2: 0.0})
    names = [f"new{number}" for number in range(recovery.CHANGED)]
    elsewhere = next(name for name in names if steered.primary_of(name) == 1)

    def lacks(osd: int, name: str) -> bool:
        return osd == 0 and name == elsewhere

    assert restarted(FakeOsds(missed=lacks), tmp_path).outcome is Outcome.FAIL


def test_copies_that_differ_after_the_restart_are_seen(tmp_path: Path) -> None:
    verdict = restarted(FakeOsds(inconsistent='["1.2"]'), tmp_path)
    assert verdict.outcome is Outcome.FAIL
    assert "1.2" in verdict.reason


def test_a_restart_that_nothing_was_recovered_after_shows_nothing(tmp_path: Path) -> None:
    assert restarted(FakeOsds(recovered=0), tmp_path).outcome is Outcome.INCONCLUSIVE


def test_a_restarted_osd_that_was_not_asked_shows_nothing(tmp_path: Path) -> None:
    assert restarted(FakeOsds(elsewhere=1), tmp_path).outcome is Outcome.INCONCLUSIVE
