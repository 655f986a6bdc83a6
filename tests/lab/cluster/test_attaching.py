"""Which scenarios fit a cluster that exists, which daemons are where, and which options go along."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cephlab.fixtures.attaching import AttachRaiser, unfit
from cephlab.fixtures.run import Request
from cephlab.fixtures.selection import not_here
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import quiet
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.cluster.attach.cluster import AttachedCluster, refuse_misfit, with_section
from cephlab.lab.cluster.attach.discover import Census, DaemonRecord, place, spec_of, take_census
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.own import OwnCluster, own
from cephlab.lab.scenario.scenario import Scenario
from cephlab.lab.scenario.topology import ANY_ARCH, PLAIN, Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec
from cephlab.lab.spec.inventory import Inventory, Machine, Role, S3Access
from cephlab.lab.spec.specfile import spec_from_json, spec_to_json
from cephlab.suites.block.stand import MeasuredTopology

HERE = host_arch()
OTHER = next(arch for arch in Arch if arch is not HERE)


def machine(name: str, last: int, arch: Arch, *roles: Role) -> Machine:
    return Machine(name, f"mgmt-{name}", f"192.0.2.{last}", arch, frozenset(roles))


MACHINES = (
    machine("a", 1, HERE, Role.MON, Role.MGR, Role.OSD, Role.CLIENT),
    machine("b", 2, HERE, Role.OSD),
    machine("c", 3, OTHER, Role.OSD, Role.CLIENT),
)
INVENTORY = Inventory(Path("inventory.toml"), MACHINES)


def osd(number: int, last: int, arch: Arch = HERE, hostname: str = "elsewhere") -> DaemonRecord:
    return DaemonRecord(f"osd.{number}", hostname, frozenset({f"192.0.2.{last}"}), arch.value, 1 << 30, "ssd")


DAEMONS = (
    osd(0, 1),
    osd(1, 2),
    osd(2, 3, OTHER),
    DaemonRecord("mon.x", "a.example", frozenset({"192.0.2.1"}), HERE.value),
    DaemonRecord("mgr.x", "a.example", frozenset(), HERE.value),
)


def census(daemons: tuple[DaemonRecord, ...] = DAEMONS, **changes: Any) -> Census:
    taken = Census(
        fsid="f",
        release="reef",
        daemons=daemons,
        placed=place(daemons, INVENTORY),
        pools=frozenset({"theirs"}),
        profiles=frozenset(),
        rules=frozenset(),
    )
    return replace(taken, **changes)


def test_daemons_are_placed_by_address_and_else_by_name() -> None:
    assert place(DAEMONS, INVENTORY) == {"osd.0": "a", "osd.1": "b", "osd.2": "c", "mon.x": "a", "mgr.x": "a"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ((osd(3, 9, hostname="stranger"),), "osd.3 is on stranger (192.0.2.9)"),
        ((osd(3, 3),), f"architecture of c: got {OTHER}, osd.3 reports {HERE}"),
        (
            (DaemonRecord("mon.y", "b", frozenset({"192.0.2.2"}), HERE.value),),
            "roles of b: got osd, wanted: also mon (for mon.y)",
        ),
    ],
)
def test_an_inventory_that_the_cluster_denies_is_refused(changed: tuple[DaemonRecord, ...], named: str) -> None:
    with pytest.raises(SpecError) as caught:
        place((*DAEMONS, *changed), INVENTORY)
    assert named in caught.value.detail
    assert "inventory.toml" in caught.value.what


def test_a_role_that_nothing_fills_is_refused() -> None:
    with pytest.raises(SpecError, match="roles of c: got osd, but the cluster has no osd there"):
        place([daemon for daemon in DAEMONS if daemon.name != "osd.2"], INVENTORY)


def test_a_gateway_is_no_daemon_that_the_cluster_lists() -> None:
    there = replace(INVENTORY, machines=(*MACHINES, machine("d", 4, HERE, Role.NVMEOF)))
    assert set(place(DAEMONS, there).values()) == {"a", "b", "c"}


def test_the_cluster_becomes_a_spec() -> None:
    spec = spec_of(census(), INVENTORY)
    assert [(node.name, node.arch, len(node.osds), node.mon) for node in spec.nodes] == [
        ("a", HERE, 1, True),
        ("b", HERE, 1, False),
        ("c", OTHER, 1, False),
    ]
    assert spec.release == "reef"


def test_real_disks_may_be_larger_than_those_of_a_lab() -> None:
    spec = spec_of(census((replace(DAEMONS[0], size_bytes=30 << 40), *DAEMONS[1:])), INVENTORY)
    assert spec.nodes[0].disks[0].size_bytes == 30 << 40
    assert spec_from_json(spec_to_json(spec)) == spec, "its archive is read again"


class FakeClient:
    """Answers as a reef cluster of one machine does (shapes of its JSON output)."""

    def mon(self, prefix: str, **_arguments: Any) -> Any:
        address = "[v2:192.0.2.1:6800/1,v1:192.0.2.1:6801/1]"
        return {
            "osd dump": {
                "fsid": "f",
                "osds": [{"osd": 0, "weight": 1, "primary_affinity": 0.5}],
                "pools": [{"pool_name": "theirs"}],
            },
            "osd tree": {"nodes": [{"id": -1}, {"id": 0, "device_class": "nvme"}]},
            "osd metadata": [
                {"id": 0, "hostname": "a", "front_addr": address, "arch": HERE.value, "bluestore_bdev_size": "4096"}
            ],
            "mon metadata": [{"name": "x", "hostname": "a", "addrs": "[v2:192.0.2.1:3300/0]", "arch": HERE.value}],
            "mgr metadata": [{"name": "x", "hostname": "a", "addr": "(unrecognized address family 0)/0", "arch": ""}],
            "versions": {"overall": {"ceph version 18.2.7 (6b0e988052ec) reef (stable)": 3}},
            "osd erasure-code-profile ls": ["default"],
            "osd crush rule ls": ["replicated_rule"],
        }[prefix]


def test_the_cluster_is_asked_what_there_is() -> None:
    inventory = Inventory(Path("i"), MACHINES[:1])
    client: Any = FakeClient()
    assert not isinstance(client, RadosClient)
    taken = take_census(client, inventory)
    assert (taken.fsid, taken.release) == ("f", "reef")
    assert taken.placed == {"osd.0": "a", "mon.x": "a", "mgr.x": "a"}
    assert taken.daemons[0].size_bytes == 4096
    assert taken.changed_weights == ("osd.0",)
    assert spec_of(taken, inventory).nodes[0].disks[0].device_class == "nvme"


@pytest.mark.parametrize(
    ("permit", "named"),
    [
        (Permit(pools=frozenset({"theirs"})), "'theirs', which already exists"),
        (Permit(daemons=frozenset({"osd.9"})), "got 'osd.9', wanted: one of"),
        (Permit(daemons=frozenset({"osd.1"})), "'osd.1', whose weight or primary affinity is not 1"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(permit: Permit, named: str) -> None:
    with pytest.raises(SpecError) as caught:
        refuse_misfit(permit, census(changed_weights=("osd.1",)), INVENTORY)
    assert named in caught.value.detail
    refuse_misfit(Permit(pools=frozenset({"mine"}), daemons=frozenset({"osd.0"})), census(), INVENTORY)


@pytest.mark.parametrize(
    ("topology", "needs", "why"),
    [
        (Topology(), frozenset(), ""),
        (Topology(), frozenset({Capability.HARDWARE}), ""),
        (Topology(), frozenset({Capability.POWER_CUT}), "it has no power-cut"),
        (Topology(options=(("x", "y"),)), frozenset(), "made for it (options)"),
        (Topology(separate_db=True), frozenset(), "made for it (separate_db)"),
        (Topology(release="squid"), frozenset(), "needs squid, the cluster runs reef"),
        (Topology(native=3), frozenset(), "4 machines with OSDs are needed, it has 3"),
        (Topology(mons=3), frozenset(), "3 monitors are needed, it has 1"),
        (Topology(osds_per_node=2), frozenset(), "2 OSDs on a machine are needed"),
        (Topology(clients=True), frozenset(), "client machine has daemons"),
        (MeasuredTopology(machines=2), frozenset(), "made for it (measured)"),
        (MeasuredTopology(machines=2, anywhere=True), frozenset(), ""),
        (MeasuredTopology(machines=3, anywhere=True), frozenset(), "3 machines with the role client"),
    ],
)
def test_what_does_not_fit_is_said(topology: Topology, needs: frozenset[Capability], why: str) -> None:
    reason = unfit(topology, needs, spec_of(census(), INVENTORY), INVENTORY)
    assert why in reason if why else reason == ""


def test_an_architecture_without_a_client_does_not_fit() -> None:
    only = replace(INVENTORY, machines=(*MACHINES[:2], machine("c", 3, OTHER, Role.OSD)))
    assert "has the role client" in unfit(Topology(), frozenset(), spec_of(census(), INVENTORY), only)
    assert unfit(Topology(foreign=0), frozenset(), spec_of(census(), INVENTORY), only) == ""


def test_without_a_foreign_machine_any_architecture_is_native() -> None:
    machines = tuple(replace(machine, arch=OTHER) for machine in MACHINES)
    there = replace(INVENTORY, machines=machines)
    spec = spec_of(census(tuple(replace(daemon, arch="") for daemon in DAEMONS)), there)
    assert unfit(Topology(native=3, foreign=0), frozenset(), spec, there) == ""
    assert "has no" in unfit(Topology(native=2, foreign=1), frozenset(), spec, there)


def alike(arch: Arch) -> tuple[ClusterSpec, Inventory]:
    """The cluster with every machine of one architecture, and a client machine without daemons."""
    machines = (*(replace(machine, arch=arch) for machine in MACHINES), machine("d", 4, arch, Role.CLIENT))
    there = replace(INVENTORY, machines=machines)
    return spec_of(census(tuple(replace(daemon, arch="") for daemon in DAEMONS)), there), there


@pytest.mark.parametrize("arch", list(Arch))
@pytest.mark.parametrize(
    ("topology", "why"),
    [
        (ANY_ARCH, ""),
        (Topology(any_arch=True, lone_client=True), ""),
        (Topology(any_arch=True, clients=True), ""),
        (Topology(any_arch=True, native=1, foreign=2), ""),
        (Topology(any_arch=True, native=2, foreign=2), "4 machines with OSDs are needed, it has 3"),
        (Topology(any_arch=True, mons=3), "3 monitors are needed, it has 1"),
    ],
)
def test_one_architecture_serves_what_is_not_about_two(arch: Arch, topology: Topology, why: str) -> None:
    reason = unfit(topology, frozenset(), *alike(arch))
    assert why in reason if why else reason == ""
    lacking = unfit(replace(topology, any_arch=False), frozenset(), *alike(arch))
    assert lacking == f"it has no {arch.other} machine with an OSD"


@pytest.mark.parametrize("topology", [Topology(clients=True), Topology(lone_client=True)])
def test_daemons_are_beside_no_client_on_one_architecture_either(topology: Topology) -> None:
    spec, there = alike(HERE)
    busy = replace(there, machines=there.machines[:-1])
    assert unfit(replace(topology, any_arch=True), frozenset(), spec, busy) == "every client machine has daemons"


@pytest.mark.parametrize("first", [True, False])
def test_equal_topologies_are_answered_by_what_they_are_about(tmp_path: Path, first: bool) -> None:
    spec, there = alike(HERE)
    raiser = AttachRaiser(Home(tmp_path), there, Permit(), "reef", quiet, _spec=spec)
    for topology in (ANY_ARCH, PLAIN) if first else (PLAIN, ANY_ARCH):
        if topology.any_arch:
            assert raiser.provider_for(topology, frozenset()) == "ssh"
        else:
            with pytest.raises(Unavailable, match=f"not on the attached cluster: it has no {OTHER} machine"):
                raiser.provider_for(topology, frozenset())


def test_what_only_a_cluster_of_the_lab_has_is_refused_in_one_place() -> None:
    nothing = cast("Any", None)
    attached = AttachedCluster(nothing, nothing, nothing, {}, {}, census(), INVENTORY, "", nothing)
    with pytest.raises(NotPermitted, match="of a cluster that the lab made") as caught:
        own(attached)
    assert "cluster that the lab made" in caught.value.hint
    labs = OwnCluster(nothing, nothing, nothing, nothing, nothing, nothing)
    assert own(labs) is labs


def test_what_damages_its_cluster_is_not_run_there() -> None:
    scenario = Scenario(name="a.b", goal="", method="", run=lambda _stage: None, spoils=True)
    assert not_here(scenario, "reef") is None
    assert "attached cluster" in str(not_here(scenario, "reef", attached=True))


def test_the_clients_section_comes_last_and_wins(tmp_path: Path) -> None:
    text = with_section("[global]\nkeyring = /theirs\n", "client.admin", tmp_path / "keyring").decode()  # type: ignore[arg-type]
    assert text.index("[client.admin]") > text.index("[global]")
    assert f"keyring = {tmp_path}/keyring" in text
    assert "rados_osd_op_timeout" in text


def test_the_gate_hands_its_options_on(tmp_path: Path) -> None:
    request = Request(tmp_path, tmp_path, lab="ssh", inventory=tmp_path / "i.toml", may_break="pool:x")
    assert {f"--inventory={tmp_path}/i.toml", "--may-break=pool:x", "--lab=ssh"} <= set(request.arguments())


def test_s3_that_stands_is_what_inventory_and_list_say(tmp_path: Path) -> None:
    keys = tmp_path / "s3.json"
    keys.write_text('{"access_key": "access-of-somebody", "secret_key": "secret-of-somebody"}')
    nothing = cast("Any", None)
    guard = Guard(Permit(buckets=frozenset({"mine"})), Existing(), dict)
    known = replace(INVENTORY, s3=S3Access(("192.0.2.1:7480", "192.0.2.2:80"), keys))
    attached = AttachedCluster(nothing, nothing, nothing, {}, {}, census(), known, "", guard)
    endpoints = attached.s3_endpoints(["mine"])
    assert [(each.address, each.access_key) for each in endpoints] == [
        ("192.0.2.1:7480", "access-of-somebody"),
        ("192.0.2.2:80", "access-of-somebody"),
    ]
    assert "secret-of-somebody" not in repr(endpoints)
    with pytest.raises(NotPermitted, match="'theirs'"):
        attached.s3_endpoints(["mine", "theirs"])
    with pytest.raises(Unavailable, match="gives no S3 endpoint of the attached cluster"):
        replace(attached, inventory=INVENTORY).s3_endpoints(["mine"])
