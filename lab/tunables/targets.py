"""Targets of a tuning: a cluster with its machines, the machine that cephlab runs on, machines of an inventory."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.providers.ssh.lab import SshLab
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.spec.inventory import Inventory
from cephlab.lab.spec.inventory import Machine as Known
from cephlab.lab.tunables.machine import THIS_MACHINE, Machine, Runner, ThisMachine
from cephlab.lab.tunables.options import CephOptions
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Scope
from cephlab.lab.tunables.tune import MACHINE_SCOPES, Site, Target

FOLDER = "tunings"


def this_machine(home: Home) -> Target:
    """The machine that cephlab runs on. Its records are kept longer than any cluster."""
    return Target(THIS_MACHINE, (Site(Machine(THIS_MACHINE, ThisMachine())),), None, Records(home.path / FOLDER))


def of_cluster(cluster: Cluster, capabilities: frozenset[Capability]) -> Target:
    """A cluster and its hosts. capabilities: of its provider; they tell which scopes each host has for itself."""
    daemons = [daemon.name for daemon in cluster.daemons.values() if daemon.kind in ("mon", "osd") and daemon.alive()]
    return Target(
        cluster.name,
        tuple(sites_of(cluster.hosts, own_scopes(capabilities))),
        CephOptions(cluster.client, sorted(daemons)),
        Records(cluster.run.directory / FOLDER),
    )


def own_scopes(capabilities: frozenset[Capability]) -> frozenset[Scope]:
    """Scopes that each host of a provider has for itself: none, its network and files, or also a kernel."""
    if Capability.OWN_KERNEL in capabilities:
        return MACHINE_SCOPES
    if Capability.OWN_NETWORK in capabilities:
        return frozenset({Scope.NETWORK, Scope.FILES})
    return frozenset()


def sites_of(hosts: Mapping[str, Host], own: frozenset[Scope]) -> Iterator[Site]:
    """One site for each host that has scopes of its own, and one for the scopes shared with the machine below.

    LabBroken if every host is down.
    """
    up = [host for host in hosts.values() if host.up()]
    if not up:
        raise LabBroken("every host of the cluster is down", f"hosts: {', '.join(hosts)}")
    if own:
        for host in hosts.values():
            yield Site(Machine(host.name, host, host.address), owned=own, up=host in up)
    shared = MACHINE_SCOPES - own
    if shared:
        yield Site(_below(up), owned=frozenset(), shared=shared)


def _below(up: Sequence[Host]) -> Machine:
    """The machine that runs the hosts, seen from one of them, a native one if possible."""
    host = next((host for host in up if not host.emulated), up[0])
    return Machine(f"the machine below {', '.join(machine.name for machine in up)}", host, host.address)


MACHINES = Path("tunings/machines")


@dataclass(frozen=True)
class Permitted:
    """Runs a tuning's script on a machine. NotPermitted for a write to a machine that is not on the list."""

    machine: Known
    runner: Runner
    permit: Permit

    @property
    def name(self) -> str:
        return self.machine.name

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        """argv: `python3` and its arguments; stdin: a request of lab/tunables/on_host.py."""
        request = json.loads(stdin)
        if (request["write"] or request["swap"] is not None) and self.name not in self.permit.hosts:
            raise _refused(self.name)
        own = (self.machine.python, *argv[1:])
        whole = ("sudo", "-n", *own) if self.machine.sudo else own
        return self.runner.run(whole, timeout_s=timeout_s, stdin=stdin)


def _refused(name: str) -> NotPermitted:
    return NotPermitted(f"changing settings of {name}, which is not on the list", "hosts", name)


@contextmanager
def of_inventory(
    inventory: Inventory, permit: Permit, home: Home, *, changing: bool, say: Callable[[str], None]
) -> Iterator[tuple[Target, ...]]:
    """A target for each machine. changing: only for machines on the list.

    The list is printed before connecting to any machine. NotPermitted, without connecting, if it names none of them.
    Records are kept in the home, as for this machine, so that they are still there after the connection has ended.
    """
    chosen = [machine for machine in inventory.machines if not changing or machine.name in permit.hosts]
    if not chosen:
        raise _refused(inventory.machines[0].name)
    for line in permit.describe():
        say(line)
    left = [machine.name for machine in inventory.machines if machine not in chosen]
    if left:
        say(f"not on the list, so not changed: {', '.join(left)}")
    with entered(inventory, home, chosen) as runners:
        yield tuple(_target(machine, Permitted(machine, runners[machine.name], permit), home) for machine in chosen)


def _target(known: Known, runner: Permitted, home: Home) -> Target:
    site = Site(Machine(known.name, runner, known.cluster_address))
    # The address is part of the name, because another inventory may use the name for another machine.
    return Target(known.name, (site,), None, Records(home.path / MACHINES / f"{known.name}@{known.address}"))


@contextmanager
def entered(inventory: Inventory, home: Home, machines: Sequence[Known]) -> Iterator[Mapping[str, Runner]]:
    """Connect to machines over ssh. What was copied there is removed at the end."""
    runs = Runs(home)
    with ExitStack() as undo:
        run = runs.create(SshProvider.name)
        undo.callback(runs.forget, run)
        lab = SshLab(run, inventory.machines)
        undo.callback(lab.close)
        for machine in machines:
            lab.add_machine(machine)
        yield lab.hosts
