"""Cache tiers without a cluster: the order of commands, when a drain is over, what is taken apart."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, LabError, NotReached, Unavailable
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.deploy.packages import plan_osds
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, ClusterSpec
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout

PAIR = PoolPair("cold", "hot")


@dataclass
class FakeHost:
    name: str = "c0"


@dataclass
class FakeCluster:
    """A cluster whose cache is `contents`, one of which goes with each pass, but for what is watched."""

    contents: list[str] = field(default_factory=list)
    watched: tuple[str, ...] = ()
    pools: list[dict[str, Any]] = field(default_factory=list)
    refuses: bool = False
    error: CephCommandFailed | None = None
    spec: ClusterSpec = field(default_factory=lambda: Topology().spec(DEFAULT_RELEASE))
    said: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    passes: int = 0
    patience: float = 1.0
    host: FakeHost = field(default_factory=FakeHost)

    @property
    def client(self) -> FakeCluster:
        return self

    def mon(self, prefix: str, **arguments: Any) -> Any:
        if prefix == "osd dump":
            return {"epoch": 1, "pools": [{"pool": at, "pg_num": 1} | pool for at, pool in enumerate(self.pools)]}
        if prefix == "osd df":
            return {"nodes": [{"id": osd, "crush_weight": 0.5} for osd in self.osd_ids()]}
        self.said.append((prefix, arguments))
        if prefix == "osd tier add" and self.error is not None:
            raise self.error
        return None

    def osd_ids(self) -> list[int]:
        return [plan.id for plan in plan_osds(self.spec.nodes)]

    def daemon(self, name: str) -> Daemon:
        plan = next(plan for plan in plan_osds(self.spec.nodes) if plan.name == name)
        return Daemon(name, cast("Host", FakeHost(plan.node)), (), disks=plan.osd.disks)

    def host_of(self, name: str) -> Host:
        return self.daemon(name).host

    def list_objects(self, _pool: str) -> list[str]:
        return list(self.contents)

    def tool(self, _node: str, _program: str, *args: str, timeout_s: float = 1.0) -> str:
        if args[-1] == "cache-flush-evict-all":
            self.passes += 1
            for name in [name for name in self.contents if name not in self.watched][:1]:
                self.contents.remove(name)
            if self.refuses:
                raise CephTrouble("rados failed", "cache-flush-evict-all finished with errors")
            return ""
        return "watcher=127.0.0.1:0/1 client.1 cookie=1\n" if args[-1] in self.watched else ""

    def up_osds(self) -> list[int]:
        return [0]

    def wait_map(self, _osds: Sequence[int]) -> int:
        return 1

    def pgs(self, pgids: Sequence[str]) -> tuple[Pg, ...]:
        self.said.append(("map", {}))
        return tuple(Pg(pgid, "active", 1, (0,), 0) for pgid in pgids)

    def commands(self) -> list[str]:
        return [prefix for prefix, _ in self.said if prefix.startswith("osd tier")]


def as_cluster(fake: FakeCluster) -> Cluster:
    return cast("Cluster", fake)


def test_only_fast_disks_move_to_a_root_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster(spec=TieredTopology(layout=TierLayout(servers=2)).spec(DEFAULT_RELEASE))
    monkeypatch.setattr(pools, "wait_clean", lambda _cluster: None)
    tiers.lay_out(as_cluster(fake))
    moved = {arguments["id"]: arguments["args"] for prefix, arguments in fake.said if prefix == "osd crush set"}
    assert moved == {
        1: ["root=ssd", "rack=ssd-rack", "host=n0-ssd"],
        3: ["root=ssd", "rack=ssd-rack", "host=n1-ssd"],
    }
    rules = {arguments["root"] for prefix, arguments in fake.said if prefix == "osd crush rule create-replicated"}
    assert rules == {"default", "ssd"}


def test_a_tier_is_set_up_before_it_is_laid_over_the_base() -> None:
    fake = FakeCluster(pools=[{"pool_name": PAIR.base}, {"pool_name": PAIR.cache}])
    tiers.attach(as_cluster(fake), PAIR, TierSettings(target_max_bytes=5))
    assert fake.commands() == ["osd tier add", "osd tier cache-mode", "osd tier set-overlay"]
    prefixes = [prefix for prefix, _ in fake.said]
    values = {arguments["var"]: arguments["val"] for prefix, arguments in fake.said if prefix == "osd pool set"}
    assert values == TierSettings(target_max_bytes=5).values()
    assert prefixes.index("osd pool set") < prefixes.index("osd tier cache-mode")
    assert prefixes[-1] == "map"


@pytest.mark.parametrize(
    ("code", "status", "raised"),
    [
        (-errno.EINVAL, "command not known", Unavailable),
        (-errno.EOPNOTSUPP, "cache tiering was removed", Unavailable),
        (-errno.EINVAL, "pool 'cold' is already a tier", CephCommandFailed),
    ],
)
def test_a_release_without_tiers_is_a_named_skip_and_a_wrong_use_is_not(
    code: int, status: str, raised: type[LabError]
) -> None:
    fake = FakeCluster(error=CephCommandFailed("mon", {"prefix": "osd tier add"}, code, status))
    with pytest.raises(raised) as refused:
        tiers.attach(as_cluster(fake), PAIR, TierSettings())
    if raised is Unavailable:
        assert refused.value.what == f"{DEFAULT_RELEASE} has no cache tiers"
        assert "deprecated since Reef" in refused.value.hint


def test_a_drain_goes_on_until_only_watched_objects_are_left() -> None:
    fake = FakeCluster(contents=["a", "rbd_header.1", "b"], watched=("rbd_header.1",), refuses=True)
    drained = tiers.drain(as_cluster(fake), PAIR)
    assert (drained.watched, drained.passes) == (("rbd_header.1",), 2)


def test_a_drain_that_comes_to_no_end_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster(contents=["a"])
    monkeypatch.setattr(tiers, "flush_evict", lambda *_: "")
    with pytest.raises(NotReached, match="1 objects left, 0 watched"):
        tiers.drain(as_cluster(fake), PAIR, timeout_s=0.0)


@pytest.mark.parametrize(
    ("overlay", "tier_of", "wanted"),
    [(2, 1, ["osd tier remove-overlay", "osd tier remove"]), (-1, 1, ["osd tier remove"]), (-1, -1, [])],
)
def test_what_is_left_of_a_tier_is_taken_apart(
    overlay: int, tier_of: int, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCluster(
        pools=[
            {"pool_name": "cold", "read_tier": overlay, "tier_of": -1},
            {"pool_name": "hot", "read_tier": -1, "tier_of": tier_of},
        ]
    )
    gone: list[str] = []
    monkeypatch.setattr(pools, "delete", lambda _cluster, name: gone.append(name))
    tiers.discard(as_cluster(fake), PAIR)
    assert fake.commands() == wanted
    assert gone == ["cold", "hot"]
