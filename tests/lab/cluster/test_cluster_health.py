"""When a cluster counts as healthy."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.ceph.daemon import Wanted
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


def document(pgs: int, clean: int, health: str = "HEALTH_OK", *, manager: bool = True) -> dict[str, Any]:
    """What `ceph status` prints."""
    states = [("active+clean", clean), ("peering", pgs - clean)]
    return {
        "health": {"status": health},
        "mgrmap": {"available": manager},
        "osdmap": {"num_osds": 3, "num_up_osds": 3, "num_in_osds": 3},
        "pgmap": {
            "num_pgs": pgs,
            "pgs_by_state": [{"state_name": name, "count": count} for name, count in states if count],
        },
    }


def status(pgs: int, clean: int, health: str = "HEALTH_OK") -> Status:
    return parse_status(document(pgs, clean, health))


class Growing(OwnCluster):
    """A cluster without OSDs whose manager makes a pool of one PG after the first look at its map."""

    def __init__(self) -> None:
        self.dumps = 0
        self.deployment = cast("Any", SimpleNamespace(daemons={}, patience=1.0))

    @property
    def client(self) -> Any:
        return SimpleNamespace(mon=self.mon)

    def mon(self, prefix: str, **_: Any) -> Any:
        if prefix == "status":
            return document(17, 17)
        self.dumps += 1
        pools = [{"pg_num": 16}, {"pg_num": 1}]
        return {"epoch": 1, "osds": [], "pools": pools[: 2 if self.dumps > 3 else 1]}


def test_a_pool_that_comes_while_it_is_waited_for_is_counted() -> None:
    cluster = Growing()
    cluster.settle(timeout_s=5)
    assert cluster.dumps > 3


class Idle(OwnCluster):
    """A cluster whose OSDs have an old map until they are told to fetch the newest. refusal: what they say to that."""

    def __init__(self, refusal: int | None = None) -> None:
        self.refusal = refusal
        self.told: list[str] = []
        self.deployment = cast("Any", SimpleNamespace(daemons={}, patience=1.0))

    @property
    def client(self) -> Any:
        return SimpleNamespace(mon=lambda _prefix: {"epoch": 7}, tell=self.tell)

    def tell(self, target: str, prefix: str) -> Any:
        if prefix == "status":
            return {"newest_map": 7 if target in self.told or target == "osd.1" else 6}
        assert prefix == "get_latest_osdmap"
        self.told.append(target)
        if self.refusal is not None:
            raise CephCommandFailed(target, {"prefix": prefix}, self.refusal, "no")
        return None


@pytest.mark.parametrize("refusal", [None, -errno.EINVAL])
def test_an_osd_without_work_is_told_to_fetch_the_newest_map(refusal: int | None) -> None:
    cluster = Idle(refusal)
    cluster.wait_map([0, 1, 2], timeout_s=5)
    assert cluster.told == ["osd.0", "osd.2"]


class Booting(OwnCluster):
    """A cluster whose one OSD is up in the map before it has that map. looks: how often it was asked until now."""

    def __init__(self, *, alive: bool = True) -> None:
        self.looks, self.up = 0, True
        osd = SimpleNamespace(
            kind="osd", id="0", name="osd.0", wanted=Wanted.RUNNING, alive=lambda: alive, stop=self.stopped
        )
        mon = SimpleNamespace(kind="mon", wanted=Wanted.RUNNING, alive=lambda: True)
        daemons = {"osd.0": osd, "mon.n0": mon}
        self.deployment = cast("Any", SimpleNamespace(daemons=daemons, patience=1.0))

    @property
    def client(self) -> Any:
        osds = [{"osd": 0, "up": self.up}]
        return SimpleNamespace(mon=lambda _prefix: {"osds": osds, "flags_set": []}, tell=self.tell)

    def daemons_changed(self) -> None:
        """Nobody else knows of this cluster."""

    def tell(self, *_: str) -> dict[str, str]:
        self.looks += 1
        return {"state": "booting" if self.looks < 3 else "active"}

    def stopped(self, *, patience: float) -> None:
        assert patience == 1.0
        self.up = False


@pytest.mark.parametrize(("alive", "looks"), [(True, 3), (False, 0)])
def test_an_osd_is_stopped_once_it_knows_that_it_is_up(alive: bool, looks: int) -> None:
    cluster = Booting(alive=alive)
    cluster.stop("osd.0")
    assert (cluster.looks, cluster.up) == (looks, False)


def interrupted(waiting: Callable[[Growing], object]) -> None:
    """Ctrl-C, and a clean-up after it that waits for the cluster."""
    try:
        raise KeyboardInterrupt("Ctrl-C")
    finally:
        waiting(Growing())


@pytest.mark.parametrize("waiting", [lambda it: it.wait(lambda _: False, what="x"), lambda it: it.settle(60)])
def test_a_clean_up_after_an_interruption_waits_for_no_cluster(waiting: Callable[[Growing], object]) -> None:
    with pytest.raises(KeyboardInterrupt, match="Ctrl-C"):
        interrupted(waiting)


@pytest.mark.parametrize(("release", "without_pools"), [("nautilus", True), ("octopus", False), ("reef", False)])
def test_a_cluster_without_pools_is_healthy_only_where_none_is_to_come(release: str, without_pools: bool) -> None:
    cluster = Waiting(release)
    cluster.wait_healthy()
    healthy = cluster.ready[-1]
    assert healthy(status(0, 0)) is without_pools
    assert healthy(status(8, 8))
    assert not healthy(status(8, 7))
    assert not healthy(status(0, 0, "HEALTH_WARN"))


def test_a_cluster_whose_manager_still_loads_its_modules_is_not_healthy() -> None:
    cluster = Waiting("reef")
    cluster.wait_healthy()
    assert cluster.ready[-1](parse_status(document(8, 8)))
    assert not cluster.ready[-1](parse_status(document(8, 8, manager=False)))
