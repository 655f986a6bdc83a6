"""The resilience suite as a list: every fault is in it, and its menus hold what a provider can do."""

import re
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.faults import FAULTS
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability
from cephlab.suites.resilience import SCENARIOS
from cephlab.suites.resilience.crash import rounds
from cephlab.suites.resilience.full import refusal_s
from cephlab.suites.resilience.monitors import LookBeyond, stale
from cephlab.suites.resilience.soak import EXCEED, menu_for
from tests.lab.faults.test_faults import REMOTE, a_cluster, an_attached_cluster

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def test_names_are_unique_and_of_this_suite() -> None:
    assert len(BY_NAME) == len(SCENARIOS)
    assert {scenario.suite for scenario in SCENARIOS} == {"resilience"}


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


@pytest.mark.parametrize(("slowest_s", "wanted"), [(0.0, 5), (0.05, 5), (0.51, 6), (8.0, 80)])
def test_a_write_counts_as_held_back_by_what_others_took(slowest_s: float, wanted: int) -> None:
    assert refusal_s(slowest_s) == wanted


def test_fifty_rounds_may_be_cut_into_runs_by_the_environment() -> None:
    assert rounds(None, Tier.FULL) == 50
    assert rounds("10", Tier.FULL) == 10


@pytest.mark.parametrize("text", ["0", "-1", "ten", ""])
def test_rounds_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="CEPHLAB_CRASH_ROUNDS"):
        rounds(text, Tier.QUICK)


def test_a_bad_block_is_expected_only_where_one_was_made() -> None:
    said = "_verify_csum bad crc32c/0x1000 checksum at blob offset 0x0, got 0x1, expected 0x2"
    allowing = {
        scenario.name for scenario in SCENARIOS if any(re.search(pattern, said) for pattern in scenario.expects)
    }
    damaging = {f"resilience.fault[{name}]" for name in ("bit-rot", "missing-object", "read-errors")}
    assert allowing == {*damaging, "resilience.thrash"}
