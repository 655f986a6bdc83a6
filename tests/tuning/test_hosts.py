"""Hosts for every shard: what CRUSH's default rule does not place, no prediction lets pass."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cephlab.lab.checks.verdict import Outcome
from cephlab.tuning.held import held
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import CapacityRequirement, RecoveryRequirement, Requirement
from tests.tuning.test_requirements import ALTRA, demands, find, load, outcomes, trust


def lost(**given: Any) -> RecoveryRequirement:
    plain = {"name": "x", "kind": "recovery", "fill": 0.7, "protection": "replicated:3", "at_most": "40 h"}
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


def test_what_is_left_may_heal_quicker_than_one_new_node_but_not_slower() -> None:
    [replaced] = held(lost(replaced=True), counted(find(ALTRA), 12), demands(), trust())
    [healed] = held(lost(), counted(find(ALTRA), 12), demands(), trust())
    assert (healed.value, healed.high) == (replaced.value, replaced.high)
    assert healed.low == pytest.approx(replaced.low / 11, rel=0.01)
    assert [line for line in healed.steps if line.startswith("recovered by the 11 hosts that are left: ")]


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
