"""Hosts for every shard: what CRUSH's default rule does not place, no prediction lets pass."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.checks.verdict import Outcome
from cephlab.tuning.held import Answer, held, too_full
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import CapacityRequirement, RecoveryRequirement, Requirement
from tests.model_parts import disks, machine, profile
from tests.tuning.test_enough import changes_for
from tests.tuning.test_requirements import ALTRA, demands, find, load, outcomes, trust


def lost(**given: Any) -> RecoveryRequirement:
    plain = {"name": "x", "kind": "recovery", "fill": 0.5, "protection": "replicated:3", "at_most": "40 h"}
    return RecoveryRequirement.model_validate({**plain, **given})


def counted(on: Profile, count: int) -> Profile:
    return replace(on, nodes=tuple(replace(node, count=count) for node in on.nodes))


@pytest.mark.parametrize(
    ("given", "nodes", "outcome"),
    [
        ({}, 3, Outcome.INCONCLUSIVE),
        ({"replaced": True}, 3, Outcome.PASS),
        ({}, 4, Outcome.PASS),
        ({"protection": "ec:2+2", "nodes_lost": 2}, 5, Outcome.INCONCLUSIVE),
        ({"protection": "ec:2+2", "nodes_lost": 2}, 6, Outcome.PASS),
        ({"replaced": True}, 2, Outcome.INCONCLUSIVE),
        ({"at_most": "1 s"}, 3, Outcome.FAIL),
    ],
)
def test_a_cluster_heals_only_where_a_host_is_left_for_each_shard(
    given: Mapping[str, Any], nodes: int, outcome: Outcome
) -> None:
    [answer] = held(lost(**given), counted(find(ALTRA), nodes), demands(), trust())
    assert answer.outcome is outcome
    too_few = outcome is not Outcome.PASS
    assert any("PGs undersized" in line for line in answer.doubts) is too_few
    assert answer.limited_by.startswith("hosts: ") is too_few
    assert ("infinity" in answer.predicted) is too_few


@pytest.mark.parametrize(
    ("given", "nodes", "said"),
    [
        ({"fill": 0.64}, 4, ""),  # 85 % on average; of its 100 PGs the fullest OSD has five more
        ({"fill": 0.65}, 4, "would be 87 % full on average, and the fullest 91 %"),
        ({"fill": 0.65, "replaced": True}, 4, ""),
        ({"fill": 0.65}, 5, ""),
        ({"fill": 0.5, "nodes_lost": 2}, 5, ""),
        ({"fill": 0.6, "nodes_lost": 2}, 5, "would be 100 % full on average, and the fullest 105 %"),
        ({"fill": None, "bytes": "13 TB"}, 4, "would be 90 % full on average, and the fullest 95 %"),
    ],
)
def test_a_cluster_without_room_for_what_a_node_held_does_not_heal(
    given: Mapping[str, Any], nodes: int, said: str
) -> None:
    on = replace(counted(find(ALTRA), nodes), pgs=None)
    [answer] = held(lost(**given), on, demands(), trust())
    assert answer.outcome is (Outcome.INCONCLUSIVE if said else Outcome.PASS)
    assert said in (too_full(lost(**given), on) or "")
    assert math.isinf(answer.high) is bool(said)
    if said:
        assert answer.limited_by == "room on the nodes that are left"
        assert said in answer.doubts[-1]


@pytest.mark.parametrize("nodes", [4, 6, 12, 48])
def test_what_is_left_heals_quicker_than_one_new_node_with_every_node_more(nodes: int) -> None:
    def answer(nodes: int, **given: Any) -> Answer:
        return held(lost(**given), counted(find(ALTRA), nodes), demands(), trust())[0]

    replaced, healed, more = answer(nodes, replaced=True), answer(nodes), answer(nodes + 1)
    assert more.high < healed.high <= replaced.high
    assert healed.low < healed.value < healed.high == pytest.approx(healed.value * trust().recovery)
    assert healed.low == pytest.approx(replaced.low / (nodes - 1), rel=0.01)
    assert [line for line in healed.steps if line.startswith(f"recovered by the {nodes - 1} hosts that are left: ")]


def test_more_nodes_are_enough_for_a_cluster_that_heals_by_itself() -> None:
    on = counted(find(ALTRA), 4)
    before, limit_s = held(lost(), on, demands(), trust())[0], held(lost(), counted(on, 9), demands(), trust())[0].high
    wanted = lost(at_most=f"{limit_s + 1:.0f} s")
    assert before.high > limit_s + 1
    changes = changes_for(wanted, on)
    assert changes["nodes"].met
    assert changes["nodes"].words == "altra: 4 machines -> 9 machines"


def test_of_unlike_machines_the_largest_are_lost_and_the_small_ones_have_to_take_it_in() -> None:
    """One of 10 TB with 5 TB of each object's copies, and four of 1 TB, which then hold three quarters of them each."""
    on = profile(machine("l", count=1, disk=(disks(count=10),)), machine("s", count=4, disk=(disks(),)))
    assert too_full(lost(), on).startswith("the disks of s that are left would be 375 % full on average")
    assert "would be 500 % full on average" in too_full(lost(nodes_lost=2), on)


def test_the_smallest_host_that_is_left_needs_room_for_a_copy_of_all() -> None:
    """Three of 10 TB and one of 2 TB, half full, hold 16 TB in three copies: with two of the large, each holds 5.3."""
    large, small = machine("l", count=3, disk=(disks(count=10),)), machine("s", count=1, disk=(disks(count=2),))
    said = too_full(lost(), profile(large, small))
    assert said.startswith("the disks of s that are left would be 267 % full on average")
    assert not too_full(lost(fill=0.1), profile(large, small))
    assert not too_full(lost(), profile(replace(large, count=4), small)), "four large ones share them"


TOO_FEW = (
    load(protection="ec:8+3", at_least="1 ops/s"),
    load(protection="replicated:5", mean_at_most="100 s"),
    load(protection="ec:8+3", per_watt_at_least="1 ops/s/W"),
    load(protection="replicated:5", op="", mix={"randread": 0.5, "randwrite": 0.5}, p99_at_most="10000 s"),
    CapacityRequirement.model_validate(
        {"name": "x", "kind": "capacity", "fill": 0.8, "protection": "ec:8+3", "at_least": "1 TB"}
    ),
)


@pytest.mark.parametrize("wanted", TOO_FEW)
def test_nothing_passes_in_a_pool_whose_shards_crush_does_not_place(wanted: Requirement) -> None:
    """The model predicts with OSDs as failure domain, which Ceph does not make by default."""
    [answer] = held(wanted, find(ALTRA), demands(), trust())
    assert answer.outcome is Outcome.INCONCLUSIVE
    assert answer.limited_by.startswith("hosts: 4 for ")
    assert "leaves such a pool's PGs undersized" in answer.doubts[0]
    [enough] = held(wanted, counted(find(ALTRA), 11), demands(), trust())
    assert enough.outcome is Outcome.PASS
    assert not any("undersized" in line for line in enough.doubts)


def test_what_cannot_do_even_with_osds_as_failure_domain_still_fails() -> None:
    assert outcomes(load(protection="ec:8+3", at_least="100000000 ops/s")) == [Outcome.FAIL]
