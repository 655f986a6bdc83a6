"""Machines that are not alike: what they are made of, and which weights and placements are wrong."""

from collections.abc import Mapping

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, GIB, Capability
from cephlab.suites.interop.unlike import CORES, SCENARIOS, SIZES, TIB, UnlikeTopology, note_placement, note_weights


def test_one_node_has_four_osds_of_unlike_sizes_and_the_other_architecture_the_majority() -> None:
    spec = UnlikeTopology().spec(DEFAULT_RELEASE)
    nodes = [node for node in spec.nodes if node.osds]
    assert [len(node.osds) for node in nodes] == [4, 1, 1]
    assert [node.arch for node in nodes] == [host_arch(), host_arch().other, host_arch().other]
    assert tuple(disk.size_bytes for disk in nodes[0].disks) == SIZES
    assert {node.cores for node in spec.nodes} == {None}


def test_cores_are_unequal_where_they_are_asked_for() -> None:
    spec = UnlikeTopology(unequal=True).spec(DEFAULT_RELEASE)
    assert tuple(node.cores for node in spec.nodes if node.osds) == CORES
    assert {node.cores for node in spec.nodes if not node.osds} == {None}
    assert [Capability.CPU_LIMIT in scenario.needs for scenario in SCENARIOS] == [False, True]


EVEN = {0: 10 * GIB, 1: 40 * GIB}


@pytest.mark.parametrize(
    ("weights", "outcome"),
    [
        ({0: 10 * GIB / TIB, 1: 40 * GIB / TIB}, Outcome.PASS),
        ({0: 0.00977, 1: 0.03906}, Outcome.PASS),
        ({0: 10 * GIB / TIB, 1: 10 * GIB / TIB}, Outcome.FAIL),
        ({0: 1.0, 1: 1.0}, Outcome.FAIL),
        ({0: 10 * GIB / TIB}, Outcome.FAIL),
    ],
    ids=["by size", "five digits", "alike", "one each", "one is missing"],
)
def test_a_weight_that_is_not_the_disks_size_is_red(weights: Mapping[int, float], outcome: Outcome) -> None:
    recorder = History().recorder("interop.unlike")
    note_weights(recorder, weights, EVEN)
    assert CHECKS["figures"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("held", "outcome"),
    [({0: 9, 1: 7, 2: 15, 3: 33}, Outcome.PASS), ({0: 16, 1: 16, 2: 16, 3: 16}, Outcome.FAIL)],
    ids=["by weight", "all alike"],
)
def test_a_placement_that_does_not_follow_the_weights_is_red(held: Mapping[int, int], outcome: Outcome) -> None:
    recorder = History().recorder("interop.unlike")
    recorder.witness("OSDs", got=4, least=4)
    note_placement(recorder, held, dict(enumerate(SIZES)))
    assert CHECKS["figures"](recorder.events()).outcome is outcome
