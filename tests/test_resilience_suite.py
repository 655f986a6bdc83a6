"""The resilience suite as a list: every fault is in it, and its menus hold what a provider can do."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.ceph.daemon import Wanted
from lab.cluster import Cluster
from lab.errors import SpecError
from lab.faults import FAULTS
from lab.faults.daemons import decides, missed
from lab.scenario import Tier
from lab.spec import Capability
from suites.resilience import SCENARIOS
from suites.resilience.crash import rounds
from suites.resilience.soak import EXCEED, menu_for

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def test_names_are_unique_and_of_this_suite() -> None:
    assert len(BY_NAME) == len(SCENARIOS)
    assert {scenario.suite for scenario in SCENARIOS} == {"resilience"}


@pytest.mark.parametrize("kind", FAULTS.values(), ids=lambda kind: str(kind.name))
def test_every_fault_is_inflicted_by_a_scenario_that_needs_what_it_needs(kind: Any) -> None:
    assert BY_NAME[f"resilience.fault[{kind.name}]"].needs == kind.needs


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
    names = [kind.name for kind in menu_for("local", 1)]
    assert "kill-daemon" in names
    assert not {kind.name for kind in FAULTS.values() if Capability.SLOW_NETWORK in kind.needs} & set(names)
    assert {kind.name for kind in menu_for("local", 2)} == set(EXCEED)


def a_cluster(**states: Wanted) -> Cluster:
    """Monitors by name -> what the lab last asked of each; all of their processes exist."""
    daemons = {
        f"mon.{name}": SimpleNamespace(wanted=wanted, alive=lambda wanted=wanted: wanted is not Wanted.STOPPED)
        for name, wanted in states.items()
    }
    return cast("Cluster", SimpleNamespace(daemons=daemons, daemon=daemons.__getitem__, patience=1.0))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ((Wanted.RUNNING, Wanted.RUNNING, Wanted.RUNNING), True),
        ((Wanted.RUNNING, Wanted.RUNNING, Wanted.PAUSED), True),
        ((Wanted.RUNNING, Wanted.STOPPED, Wanted.PAUSED), False),
        ((Wanted.STOPPED, Wanted.STOPPED, Wanted.STOPPED), False),
    ],
)
def test_a_majority_decides(wanted: tuple[Wanted, Wanted, Wanted], found: bool) -> None:
    assert decides(a_cluster(**dict(zip(("a", "b", "c"), wanted, strict=True)))) is found


def test_a_monitor_is_missed_by_its_process_where_nobody_decides() -> None:
    cluster = a_cluster(a=Wanted.STOPPED)
    sign = missed(cluster, "mon.a")
    assert (sign.got, sign.least) == (1, 1)
    assert missed(a_cluster(a=Wanted.PAUSED), "mon.a").got == 1


def test_fifty_rounds_may_be_cut_into_runs_by_the_environment() -> None:
    assert rounds(None, Tier.FULL) == 50
    assert rounds("10", Tier.FULL) == 10


@pytest.mark.parametrize("text", ["0", "-1", "ten", ""])
def test_rounds_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="CEPHLAB_CRASH_ROUNDS"):
        rounds(text, Tier.QUICK)


def test_a_bad_block_is_expected_only_where_one_was_made() -> None:
    said = "_verify_csum bad crc32c/0x1000 checksum at blob offset 0x0, got 0x1, expected 0x2"
    allowing = {one.name for one in SCENARIOS if any(re.search(pattern, said) for pattern in one.expects)}
    damaging = {f"resilience.fault[{name}]" for name in ("bit-rot", "missing-object", "read-errors")}
    assert allowing == {*damaging, "resilience.thrash"}
