"""Schedules of faults: the same seed makes the same one, and no more nodes are struck at a time than may be."""

from itertools import islice, repeat
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster import pools
from cephlab.lab.faults import FAULTS, Layout, Pace, ThrashStep, plan, thrash
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Tier
from cephlab.suites.resilience.soak import lasts_s

MENU = tuple(FAULTS.values())
LAYOUT = Layout(
    {
        "c0": (),
        "n0": ("mgr.n0", "mon.n0", "osd.0"),
        "n1": ("mon.n1", "osd.1"),
        "n2": ("mon.n2", "osd.2"),
        "n3": ("osd.3",),
    },
    "c0",
)


def steps(seed: int, count: int, domains: int = 1) -> list[ThrashStep]:
    return list(islice(plan(LAYOUT, Random(seed), MENU, domains=domains), count))


def struck(step: ThrashStep) -> list[frozenset[str]]:
    return [fault.nodes(LAYOUT) for fault in step.faults]


def test_the_same_seed_makes_the_same_schedule() -> None:
    assert steps(7, 30) == steps(7, 30)
    assert steps(7, 30) != steps(8, 30)


@pytest.mark.parametrize("seed", range(10))
def test_one_failure_domain_at_a_time(seed: int) -> None:
    for step in steps(seed, 60):
        assert len(step.faults) == 1
        assert len(struck(step)[0]) <= 1


@pytest.mark.parametrize("domains", [2, 3])
def test_more_only_where_it_is_asked_for(domains: int) -> None:
    counts = set()
    for step in steps(3, 200, domains):
        nodes = struck(step)
        together: frozenset[str] = frozenset().union(*nodes)
        assert len(together) <= domains
        assert len(together) == sum(len(each) for each in nodes), "two faults strike one node"
        assert len(step.faults) == 1 or all(nodes), "a fault that needs a whole cluster was put beside another"
        counts.add(len(step.faults))
    assert counts == set(range(1, domains + 1))


def test_what_strikes_everything_is_never_within_one_domain() -> None:
    names = {fault.name for step in steps(1, 500) for fault in step.faults}
    everything = {"kill-everything", "power-cut", "full-disks"}
    assert not names & everything
    assert names == set(FAULTS) - everything


def test_times_keep_the_pace() -> None:
    pace = Pace(hold_s=(2.0, 3.0), rest_s=(0.0, 0.5))
    for step in islice(plan(LAYOUT, Random(1), MENU, pace=pace), 50):
        assert 2.0 <= step.hold_s <= 3.0
        assert 0.0 <= step.rest_s <= 0.5


def test_a_menu_that_never_fits_is_refused() -> None:
    with pytest.raises(SpecError, match="no fault on the menu fits"):
        next(plan(LAYOUT, Random(1), [FAULTS["kill-everything"]]))


def test_the_length_of_a_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lasts_s(Tier.QUICK) < lasts_s(Tier.FULL)
    monkeypatch.setenv("CEPHLAB_SOAK_MINUTES", "2.5")
    assert lasts_s(Tier.FULL) == 150


@pytest.mark.parametrize(("least", "done"), [(0, 0), (2, 2)])
def test_a_soak_whose_time_is_over_does_its_least_steps(least: int, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "wait_clean", lambda cluster, timeout_s: None)
    cluster: Any = SimpleNamespace(wait=lambda ready, what, timeout_s: None)
    endless = repeat(ThrashStep((), hold_s=0.0, rest_s=0.0))
    assert thrash(cluster, History().recorder("a.b"), endless, seconds=0.0, least=least) == done
