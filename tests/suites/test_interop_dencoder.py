"""The scenario over ceph-dencoder's types, with a stand-in for the program: no Debian image has the types."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.checks import Verdict
from cephlab.lab.history.history import History, data_of
from cephlab.lab.scenario.scenario import Stage, run_scenario
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import dencoder
from tests.fake_dencoder import DencoderHost, cluster_of

TYPES = {"pg_t": 3, "osd_info_t": 1, "hobject_t": 2 * dencoder.BATCH}
COUNT = sum(TYPES.values())


def judged(tmp_path: Path, **flaws: Any) -> tuple[Verdict, Mapping[str, Any], dict[Arch, DencoderHost]]:
    """The verdict with flaws in the aarch64 program, the last observation, and the hosts."""
    hosts = {}
    for arch in Arch:
        (tmp_path / arch).mkdir()
        own = flaws if arch is Arch.AARCH64 else {}
        hosts[arch] = DencoderHost(arch, tmp_path / arch, **{"types": TYPES, **own})
    recorder = History().recorder("s")
    stage = Stage(cluster_of(hosts), recorder, Random(1), tmp_path)  # type: ignore[arg-type]
    verdict = run_scenario(dencoder.SCENARIOS[0], stage)
    seen = data_of(recorder.events(), "observation")
    return verdict, seen[-1], hosts


@pytest.mark.slow
def test_both_alike_pass_in_few_processes(tmp_path: Path) -> None:
    verdict, last, hosts = judged(tmp_path)
    assert verdict.outcome == "pass"
    assert last["of"] == COUNT
    assert [len(host.started) for host in hosts.values()] == [2 + 2 * 3] * 2


@pytest.mark.slow
def test_a_type_read_differently_fails_and_is_named(tmp_path: Path) -> None:
    verdict, _, _ = judged(tmp_path, misreads=frozenset({"pg_t"}))
    assert verdict.outcome == "fail"
    assert "pg_t #1" in verdict.reason


@pytest.mark.slow
def test_an_instance_that_ends_the_program_costs_only_itself(tmp_path: Path) -> None:
    verdict, _, _ = judged(tmp_path, crashes=frozenset({("hobject_t", 7)}))
    assert verdict.outcome == "fail"
    assert "hobject_t #7" in verdict.reason
    assert "hobject_t #8" not in str(verdict.derivation)


@pytest.mark.slow
def test_a_type_that_one_lacks_fails(tmp_path: Path) -> None:
    verdict, _, _ = judged(tmp_path, types={**TYPES, "new_t": 1})
    assert verdict.outcome == "fail"


def same_types(tmp_path: Path, types: Mapping[str, int], crashes: frozenset[tuple[str, int]] = frozenset()) -> Verdict:
    """The verdict on two programs with the same types, of which both refuse the same instances."""
    hosts = {}
    for arch in Arch:
        (tmp_path / arch).mkdir()
        hosts[arch] = DencoderHost(arch, tmp_path / arch, types=types, crashes=crashes)
    stage = Stage(cluster_of(hosts), History().recorder("s"), Random(1), tmp_path)  # type: ignore[arg-type]
    return run_scenario(dencoder.SCENARIOS[0], stage)


@pytest.mark.parametrize(
    ("types", "refused", "outcome"),
    [
        ({"pg_t": 2, "hobject_t": 1, "MPing": 0}, (), "pass"),
        ({"pg_t": 2, "MLog": 0, "MPing": 0}, (), "inconclusive"),
        ({"pg_t": 2, "hobject_t": 1, "MPing": 0}, [("hobject_t", 1)], "inconclusive"),
    ],
)
def test_most_types_must_have_been_compared(
    tmp_path: Path, types: dict[str, int], refused: Sequence[tuple[str, int]], outcome: str
) -> None:
    verdict = same_types(tmp_path, types, frozenset(refused))
    assert verdict.outcome == outcome
    assert outcome == "pass" or "share of types with an instance that both encode" in verdict.reason


def test_what_both_refuse_was_decoded_by_neither(tmp_path: Path) -> None:
    verdict = same_types(tmp_path, {"pg_t": 2}, frozenset({("pg_t", 1), ("pg_t", 2)}))
    assert verdict.outcome == "inconclusive"
    assert "decodes differently" in verdict.reason


def test_without_types_it_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="aarch64 image's ceph-dencoder has no type modules"):
        judged(tmp_path, types={})
