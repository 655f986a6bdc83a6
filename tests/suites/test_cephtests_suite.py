"""Ceph's own test programs: what counts as run, what is red, and what is not started where memory is short."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

import pytest

from cephlab.fixtures.selection import read_expected_skips, unexpected_skips
from cephlab.lab.archive.archive import Ending, Record
from cephlab.lab.base.errors import CommandTimedOut, LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster import pools, preflight
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import GIB
from cephlab.lab.workloads.gtest import Case, CaseResult, GtestRun
from cephlab.suites.cephtests import models, programs
from tests.fake_osds import FakeOsds
from tests.suites.test_interop_led import stage_of

SKIPS = Path(__file__).resolve().parents[2] / "suites/expected-skips.toml"


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
