"""Scenarios that steer who leads: each does what its own tier says, and reads from the OSD that it is about."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from cephlab.fixtures.selection import read_expected_skips, unexpected_skips
from cephlab.lab.archive.archive import Ending, Record
from cephlab.lab.base.errors import CommandTimedOut, LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster import pools, preflight
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB
from cephlab.lab.workloads.gtest import Case, CaseResult, GtestRun
from cephlab.suites.cephtests import models, programs
from cephlab.suites.interop import objects, placement, recovery
from cephlab.suites.interop.matrix import counted_operations, led_by_one
from cephlab.suites.interop.objects import SIZES
from tests.fake_osds import OSDS, FakeOsds

SKIPS = Path(__file__).resolve().parents[2] / "suites/expected-skips.toml"
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


def seen_client(stage: Stage, client: Arch) -> None:
    stage.recorder.observe("client", got=client.value, wanted="x86_64")


@pytest.mark.parametrize(
    ("topic", "result", "outcome"),
    [
        ("cmd", CaseResult.PASS, Outcome.PASS),
        ("cmd", CaseResult.SKIP, Outcome.INCONCLUSIVE),
        ("io", CaseResult.PASS, Outcome.INCONCLUSIVE),
    ],
)
def test_a_program_that_only_sends_commands_is_known_by_the_cases_that_passed(
    topic: str, result: CaseResult, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing here sends operations to an OSD, so a program that should have done so is inconclusive."""
    [program] = [each for each in programs.PROGRAMS if each.name == f"ceph_test_rados_api_{topic}"]
    ran = GtestRun(program.name, (Case("Suite.name", result),), 0, "")
    monkeypatch.setattr(programs, "require_programs", lambda *_: None)
    monkeypatch.setattr(programs, "observe_client", seen_client)
    monkeypatch.setattr(programs, "run_program", lambda *_, **__: ran)
    for name in ("none_left", "led_by"):
        monkeypatch.setattr(pools, name, lambda *_: nullcontext())
    cluster = FakeOsds()
    cluster.host_with = lambda arch: SimpleNamespace(emulated=False)  # type: ignore[attr-defined]
    cluster.provider_name = "local"  # type: ignore[attr-defined]
    stage = stage_of(cluster, tmp_path)
    programs.run(stage, [program], Arch.X86_64)
    assert CHECKS["gtest"](stage.recorder.events()).outcome is outcome


MISC = next(scenario for scenario in programs.SCENARIOS if "rados_api_misc[" in scenario.name and scenario.memory_bytes)


@pytest.mark.parametrize(
    ("available", "host", "started"),
    [
        (16 * GIB, SimpleNamespace(name="f0", emulated=True, files_here=True), False),
        (18 * GIB, SimpleNamespace(name="f0", emulated=True, files_here=True), True),
        (16 * GIB, SimpleNamespace(name="n0", emulated=False, files_here=True), True),
        (16 * GIB, SimpleNamespace(name="f0", emulated=True, own_kernel=True), True),
    ],
    ids=["short", "enough", "native", "own-kernel"],
)
def test_a_program_that_takes_the_memory_under_an_emulator_is_skipped_where_less_is_available(
    available: int, host: object, started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this, the machine ran out of memory, and another scenario's OSD was to blame."""
    begun: list[object] = []
    monkeypatch.setattr(preflight, "memory", lambda: preflight.Memory(32 * GIB, available))
    monkeypatch.setattr(programs, "require_programs", lambda *_: None)
    monkeypatch.setattr(programs, "observe_client", lambda *_: begun.append(True))
    monkeypatch.setattr(pools, "none_left", Mock(side_effect=LabBroken("the programs start here")))
    cluster = SimpleNamespace(host_with=lambda _arch: host, patience=1.0)
    with pytest.raises(LabBroken if started else Unavailable) as ended:
        MISC.run(stage_of(cluster, tmp_path))
    assert bool(begun) is started
    if not started:
        said = "ceph_test_rados_api_misc takes 17.0 GiB of memory under an emulator, and f0 has 16.0 GiB available"
        assert ended.value.what == said
        skip = Record(MISC.name, MISC.suite, Ending.SKIP, said)
        assert unexpected_skips([skip], read_expected_skips(SKIPS), Tier.FULL) == []
        assert unexpected_skips([skip], read_expected_skips(SKIPS), Tier.QUICK) == [skip]


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


class Ran:
    """A host whose programs end with a status, or do not end."""

    directory = Path("/x")

    def __init__(self, code: int | None) -> None:
        self.code = code

    def run(self, argv: Sequence[str], **_: object) -> Result:
        if self.code is None:
            raise CommandTimedOut(argv, 1.0, "half of it", "", "n0")
        return Result(tuple(argv), self.code, b"Total number of IOs = 7", b"")


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, Outcome.PASS), (-6, Outcome.FAIL), (None, Outcome.FAIL)], ids=["well", "aborted", "hung"]
)
def test_a_program_of_ceph_that_aborts_or_hangs_is_red(code: int | None, outcome: Outcome, tmp_path: Path) -> None:
    stage = stage_of(FakeOsds(), tmp_path)
    models.run_to_end(stage, cast("Host", Ran(code)), ["model"])
    assert CHECKS["observations"](stage.recorder.events()).outcome is outcome


def test_an_object_is_named_that_the_wanted_architecture_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = {f"sequence{number}": {"acting_primary": 0 if number < 5 else 2} for number in range(200)}
    monkeypatch.setattr(pools, "locate", lambda _cluster, _pool, name: leaders[name])
    osds = SimpleNamespace(osd_ids=lambda arch: [2] if arch is Arch.AARCH64 else [0, 1])
    assert models.led_name(cast("Cluster", osds), "p", Arch.AARCH64) == "sequence5"
    monkeypatch.setattr(pools, "locate", lambda *_: {"acting_primary": 0})
    with pytest.raises(LabBroken, match="led by aarch64"):
        models.led_name(cast("Cluster", osds), "p", Arch.AARCH64)
