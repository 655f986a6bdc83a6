"""When a cluster counts as healthy."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.status import Status, parse_status
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.layout import CephSetup, build_spec


class Waiting(OwnCluster):
    """A cluster that only remembers what it is waited for."""

    def __init__(self, release: str) -> None:
        self.spec = build_spec([(Arch.X86_64, 3)], setup=CephSetup(release))
        self.deployment = cast("Any", SimpleNamespace(daemons={}, patience=1.0))
        self.ready: list[Callable[[Status], bool]] = []

    def settle(self, timeout_s: float = 0) -> None:
        """Nothing to wait for."""

    def wait(self, ready: Callable[[Status], bool], **_: Any) -> Status:
        self.ready.append(ready)
        return status(0, 0)


def status(pgs: int, clean: int, health: str = "HEALTH_OK") -> Status:
    states = [("active+clean", clean), ("peering", pgs - clean)]
    return parse_status(
        {
            "health": {"status": health},
            "osdmap": {"num_osds": 3, "num_up_osds": 3, "num_in_osds": 3},
            "pgmap": {
                "num_pgs": pgs,
                "pgs_by_state": [{"state_name": name, "count": count} for name, count in states if count],
            },
        }
    )


@pytest.mark.parametrize(("release", "without_pools"), [("nautilus", True), ("octopus", False), ("reef", False)])
def test_a_cluster_without_pools_is_healthy_only_where_none_is_to_come(release: str, without_pools: bool) -> None:
    cluster = Waiting(release)
    cluster.wait_healthy()
    healthy = cluster.ready[-1]
    assert healthy(status(0, 0)) is without_pools
    assert healthy(status(8, 8))
    assert not healthy(status(8, 7))
    assert not healthy(status(0, 0, "HEALTH_WARN"))
