"""A cluster of the lab that grows: what is refused before any machine is started."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.own import load_cluster
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Disk, Node, Osd
from tests.fake_provider import FakeProvider, kept_cluster


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (Node("n9", host_arch(), (Disk("n0-block0"),)), "disk 'n0-block0' is there more than once"),
        (Node("n9", host_arch(), osds=(Osd("n9-block0"),)), "which the node does not have"),
        (Node("../n9", host_arch()), "not a valid name for a node"),
    ],
)
def test_a_machine_that_fits_no_valid_cluster_is_not_started(tmp_path: Path, node: Node, words: str) -> None:
    home = Home(tmp_path).ensure()
    cluster = load_cluster(FakeProvider(lab=kept_cluster(home)), Runs(home).get("one"))
    before = cluster.spec
    with pytest.raises(SpecError) as caught:
        cluster.add_node(node)
    assert words in str(caught.value)
    assert cluster.spec == before
