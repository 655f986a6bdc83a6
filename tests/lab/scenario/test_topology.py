"""What cluster a scenario wants: nothing that it says is dropped unseen."""

from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.scenario.topology import ANY_ARCH, PLAIN, Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Disk
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout


@pytest.mark.parametrize(
    ("kind", "given", "what"),
    [
        (Topology, {"clients": True, "lone_client": True}, "contradict"),
        (Topology, {"client_disks": (Disk("more"),)}, "client_disks without a client"),
        (MeasuredTopology, {"mons": 3}, "MeasuredTopology ignores mons"),
        (MeasuredTopology, {"any_arch": True}, "MeasuredTopology ignores any_arch"),
        (MeasuredTopology, {"foreign": 1, "clients": True}, "ignores clients, foreign"),
        (TieredTopology, {"native": 3}, "TieredTopology ignores native"),
        (TieredTopology, {"separate_db": True, "osds_per_node": 2}, "ignores osds_per_node, separate_db"),
    ],
)
def test_what_contradicts_or_is_dropped_is_refused(kind: type[Topology], given: dict[str, Any], what: str) -> None:
    with pytest.raises(SpecError, match=what):
        kind(**given)


def test_services_go_to_the_nodes_that_are_named() -> None:
    spec = Topology(services=(("n1", ("rgw", "mds")), ("n2", ("mds",)))).spec("reef")
    assert [node.services for node in spec.nodes] == [(), ("rgw", "mds"), ("mds",)]
    with pytest.raises(SpecError, match="no such node: n7"):
        Topology(services=(("n7", ("rgw",)),)).spec("reef")


def test_topologies_of_two_kinds_never_share_a_cluster() -> None:
    assert TieredTopology() != Topology()
    assert TieredTopology(layout=TierLayout(servers=2)) != TieredTopology()
    assert MeasuredTopology(machines=2) == MeasuredTopology(machines=2, anywhere=True)


def test_in_a_lab_a_scenario_that_needs_no_mixture_gets_one_all_the_same() -> None:
    assert ANY_ARCH == PLAIN
    assert ANY_ARCH.spec("reef") == PLAIN.spec("reef")
    assert set(ANY_ARCH.spec("reef").archs) == set(Arch)


def test_what_a_cluster_that_exists_cannot_have_is_named() -> None:
    assert Topology(native=5, mons=3, clients=True, release="reef", any_arch=True).made == ""
    assert Topology(options=(("x", "y"),), separate_db=True).made == "separate_db, options"
    assert TieredTopology(layout=TierLayout(servers=1)).made == "layout"
    assert MeasuredTopology().made == "measured"
    assert MeasuredTopology(anywhere=True).made == ""
