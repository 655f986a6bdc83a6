"""The cache-tier suite as records, and the clusters that it asks for."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import History, Recorder, data_of
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability, DiskClass
from cephlab.suites.cachetier import SCENARIOS
from cephlab.suites.cachetier.database import TOPOLOGY as DATABASE
from cephlab.suites.cachetier.leaving import compare_headers
from cephlab.suites.cachetier.stand import PAPER
from cephlab.suites.cachetier.tiers import PoolPair, TierSettings, hit_share
from cephlab.suites.cachetier.tierspec import FAST, SLOW, TieredTopology, TierLayout

FOREIGN = next(arch for arch in Arch if arch is not host_arch())


@pytest.mark.parametrize(
    ("base", "lost", "behind"),
    [
        ({"size": "64"}, [], []),
        ({"modify_timestamp": "older"}, [], ["modify_timestamp"]),
        ({"size": "32", "modify_timestamp": "older"}, ["h: size"], ["modify_timestamp"]),
        ({"snapshot_0004": None}, ["h: snapshot_0004"], []),
    ],
)
def test_a_header_may_lack_the_time_of_its_last_use_and_nothing_else(
    tmp_path: Path, base: dict[str, str | None], lost: list[str], behind: list[str]
) -> None:
    cache = {"size": "64", "modify_timestamp": "newer", "snapshot_0004": "x"}
    pools = {"c": cache, "b": {key: value for key, value in {**cache, **base}.items() if value is not None}}
    client = SimpleNamespace(digest=lambda pool, _name: {"size": 0, "sha256": "", "omap": pools[pool]})
    recorder = Recorder(History(tmp_path / "history.jsonl"), "cachetier.leaving")
    stage = SimpleNamespace(cluster=SimpleNamespace(client=client), recorder=recorder)
    compare_headers(cast("Stage", stage), cast("PoolPair", SimpleNamespace(cache="c", base="b")), ["h"])
    events = recorder.events()
    assert [data["got"] for data in data_of(events, "observation")] == [lost]
    assert [data["behind"] for data in data_of(events, "headers")] == [{"h": behind}]


def test_the_quick_tier_promotes_misses_and_leaves_on_one_cluster() -> None:
    quick = [scenario for scenario in SCENARIOS if scenario.tier is Tier.QUICK]
    topics = {scenario.name.partition(".")[2].partition("[")[0] for scenario in quick}
    assert {"promotion", "misses", "leaving"} <= topics
    assert {scenario.topology for scenario in quick} == {PAPER}
    assert not any(scenario.spoils for scenario in quick)


def test_each_server_of_the_paper_has_a_disk_and_an_osd_of_both_classes() -> None:
    spec = PAPER.spec(DEFAULT_RELEASE)
    servers = [node for node in spec.nodes if node.osds]
    assert len(servers) == 3
    for node in servers:
        assert [disk.device_class for disk in node.disks] == [SLOW, FAST]
        assert [osd.block for osd in node.osds] == [disk.name for disk in node.disks]
        assert node.arch is host_arch()
    assert [node.arch for node in spec.nodes if not node.osds] == [host_arch(), FOREIGN]
    assert not spec.needs()


def test_limits_make_a_slow_disk_slow_and_give_the_fast_one_a_device_of_its_own() -> None:
    spec = TieredTopology(layout=TierLayout(servers=2, limited=True)).spec(DEFAULT_RELEASE)
    assert spec.needs() == {Capability.DISK_LIMIT}
    for node in spec.nodes:
        slow, fast = node.disks
        assert slow.limits.any()
        assert fast.limits.any()
        assert (slow.limits.write_iops or 0) * 100 < (fast.limits.write_iops or 0)


@pytest.mark.parametrize("fast_native", [True, False])
def test_apart_each_architecture_has_one_class_and_the_monitor_is_native(fast_native: bool) -> None:
    layout = TierLayout(servers=2, apart=True, fast_native=fast_native)
    spec = TieredTopology(layout=layout).spec(DEFAULT_RELEASE)
    classes = {(node.arch, disk.device_class) for node in spec.nodes for disk in node.disks}
    native, foreign = (FAST, SLOW) if fast_native else (SLOW, FAST)
    assert classes == {(host_arch(), native), (FOREIGN, foreign)}
    assert [(node.name, node.arch) for node in spec.mons] == [("n0", host_arch())]
    assert spec.osd_count == 4


def test_a_tier_without_servers_is_refused() -> None:
    with pytest.raises(SpecError, match="0 servers"):
        TierLayout(servers=0)


def test_other_topologies_are_what_they_were() -> None:
    spec = Topology().spec(DEFAULT_RELEASE)
    assert {disk.device_class for node in spec.nodes for disk in node.disks} == {DiskClass.SSD}


def test_settings_go_by_the_names_of_ceph() -> None:
    values = TierSettings(target_max_bytes=1 << 20, read_recency=2).values()
    assert values["target_max_bytes"] == "1048576"
    assert values["min_read_recency_for_promote"] == "2"
    assert values["hit_set_type"] == "bloom"
    ratios = [values[f"cache_target_{name}_ratio"] for name in ("dirty", "dirty_high", "full")]
    assert ratios == sorted(ratios)


def test_the_share_of_hits_counts_what_was_served_past_the_cache() -> None:
    counters = {"op_cache_hit": 90.0, "tier_proxy_read": 6.0, "tier_proxy_write": 4.0}
    assert hit_share(counters) == pytest.approx(0.9)
    assert hit_share(dict.fromkeys(counters, 0.0)) == 0.0


def test_each_architecture_has_the_fast_disks_once() -> None:
    apart = {scenario.name: scenario.topology for scenario in SCENARIOS if "fast=" in scenario.name}
    for arch in Arch:
        named = [topology for name, topology in apart.items() if name.endswith(f"fast={arch}]")]
        assert named
        for topology in named:
            nodes = topology.spec(DEFAULT_RELEASE).nodes
            assert {node.arch for node in nodes for disk in node.disks if disk.device_class is FAST} == {arch}


def test_the_database_has_a_server_with_both_classes_and_a_client_with_the_disks_of_a_cache() -> None:
    server, client = DATABASE.spec(DEFAULT_RELEASE).nodes
    assert [disk.device_class for disk in server.disks] == [SLOW, FAST]
    assert [disk.name for disk in client.disks] == ["cache", "metadata"]
    assert not client.osds
    named = [scenario for scenario in SCENARIOS if scenario.topology == DATABASE]
    assert named
    assert all(Capability.OWN_KERNEL in scenario.needs and scenario.tier is Tier.FULL for scenario in named)
