"""Where a tuning is applied: the machines of a cluster that run, this machine, and machines entered over ssh."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.spec.inventory import Inventory, Role
from cephlab.lab.spec.inventory import Machine as Known
from cephlab.lab.tunables import targets
from cephlab.lab.tunables.machine import ThisMachine
from cephlab.lab.tunables.settings import Scope
from cephlab.lab.tunables.targets import entered, of_cluster, of_inventory, own_scopes, sites_of, this_machine
from cephlab.lab.tunables.tune import MACHINE_SCOPES


def host(name: str, *, up: bool = True, emulated: bool = False) -> Host:
    made = SimpleNamespace(name=name, address=f"10.0.0.{name[1:]}", emulated=emulated, up=lambda: up)
    return cast("Host", made)


def test_this_machine_is_changed_itself_and_remembered_in_the_home(tmp_path: Path) -> None:
    target = this_machine(Home(tmp_path))
    [site] = target.sites
    assert (target.name, target.ceph, target.records.folder) == ("this machine", None, tmp_path / "tunings")
    assert (site.owned, site.shared, site.machine.runner) == (MACHINE_SCOPES, frozenset(), ThisMachine())
    assert (site.machine.where, ThisMachine().name) == ("this machine", "this machine")


def test_a_clusters_options_are_those_of_its_monitors_and_osds_that_run(tmp_path: Path) -> None:
    daemons = {
        f"{kind}.{number}": SimpleNamespace(name=f"{kind}.{number}", kind=kind, alive=lambda runs=runs: runs)
        for kind, number, runs in (("osd", 1, True), ("mon", 0, True), ("mgr", 0, True), ("osd", 0, False))
    }
    hosts, client = {"n1": host("n1")}, object()
    run = SimpleNamespace(directory=tmp_path)
    cluster = SimpleNamespace(name="one", daemons=daemons, hosts=hosts, client=client, run=run)
    target = of_cluster(cast("Cluster", cluster), frozenset({Capability.OWN_KERNEL}))
    assert target.ceph is not None
    assert (target.name, target.ceph.client, target.ceph.daemons) == ("one", client, ["mon.0", "osd.1"])
    assert target.records.folder == tmp_path / "tunings"
    [site] = target.sites
    assert (site.machine.where, site.machine.runner, site.machine.address) == ("n1", hosts["n1"], "10.0.0.1")
    assert (site.owned, site.shared) == (MACHINE_SCOPES, frozenset())


def test_hosts_that_are_down_are_named_and_nothing_is_asked_of_them() -> None:
    hosts = {"n1": host("n1", up=False), "n2": host("n2", emulated=True), "n3": host("n3")}
    down, own, other, below = sites_of(hosts, frozenset({Scope.NETWORK}))
    assert (down.machine.where, down.owned) == ("n1", frozenset({Scope.NETWORK}))
    assert [site.up for site in (down, own, other, below)] == [False, True, True, True]
    assert [site.machine.where for site in (own, other, below)] == ["n2", "n3", "the machine below n2, n3"]
    assert own.machine.runner is hosts["n2"]
    assert (own.owned, own.shared) == (frozenset({Scope.NETWORK}), frozenset())
    assert (below.machine.runner, below.machine.address) == (hosts["n3"], "10.0.0.3")
    assert (below.owned, below.shared) == (frozenset(), MACHINE_SCOPES - {Scope.NETWORK})
    [emulated] = sites_of({"n2": hosts["n2"]}, frozenset())
    assert emulated.machine.runner is hosts["n2"]
    with pytest.raises(LabBroken, match="every host of the cluster is down"):
        list(sites_of({"n1": hosts["n1"]}, MACHINE_SCOPES))


@pytest.mark.parametrize(
    ("capabilities", "own"),
    [
        ({Capability.MOVE_DISK}, set()),
        ({Capability.OWN_NETWORK}, {Scope.NETWORK, Scope.FILES}),
        ({Capability.OWN_NETWORK, Capability.OWN_KERNEL}, set(MACHINE_SCOPES)),
    ],
)
def test_a_host_owns_what_its_provider_isolates(capabilities: set[Capability], own: set[Scope]) -> None:
    assert own_scopes(frozenset(capabilities)) == own


def known_machines() -> Inventory:
    machines = tuple(
        Known(name, f"192.0.2.{name[1:]}", f"198.51.100.{name[1:]}", Arch.X86_64, frozenset({Role.OSD}))
        for name in ("n1", "n2")
    )
    return cast("Inventory", SimpleNamespace(machines=machines))


class Ssh:
    """What a lab over ssh would do, in order."""

    def __init__(self, run: Any, machines: Sequence[Known]) -> None:
        self.run = run
        self.hosts = {machine.name: machine.address for machine in machines}
        self.done: list[str] = []
        made.append(self)

    def add_machine(self, machine: Known) -> None:
        self.done.append(f"enter {machine.name}")

    def close(self) -> None:
        assert self.run.directory.exists()
        self.done.append("close")


made: list[Ssh] = []


@pytest.mark.parametrize("fails", [False, True])
def test_only_chosen_machines_are_entered_and_nothing_is_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(targets, "SshLab", Ssh)
    home = Home(tmp_path).ensure()
    inventory = known_machines()
    made.clear()
    try:
        with entered(inventory, home, inventory.machines[1:]) as runners:
            assert runners is cast("Any", made[0].hosts)
            assert made[0].done == ["enter n2"]
            assert [(run.directory, run.owner()["provider"]) for run in Runs(home).all()] == [
                (made[0].run.directory, "ssh")
            ]
            if fails:
                raise LabBroken("no way")
    except LabBroken:
        assert fails
    assert made[0].done == ["enter n2", "close"]
    assert list(Runs(home).all()) == []


def test_a_machine_of_an_inventory_is_known_by_both_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By that of the cluster network its interface is found, and by the other its record, whatever its name."""
    monkeypatch.setattr(targets, "SshLab", Ssh)
    home, said = Home(tmp_path).ensure(), list[str]()
    with of_inventory(known_machines(), Permit(), home, changing=False, say=said.append) as (first, second):
        assert [run.directory for run in Runs(home).all()] == [made[-1].run.directory]
    assert said == Permit().describe()
    assert [(target.name, target.ceph) for target in (first, second)] == [("n1", None), ("n2", None)]
    [site] = second.sites
    assert (site.machine.where, site.machine.address, site.owned) == ("n2", "198.51.100.2", MACHINE_SCOPES)
    assert second.records.folder == tmp_path / "tunings" / "machines" / "n2@192.0.2.2"
