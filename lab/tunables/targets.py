"""Where a tuning can go: a cluster with its machines, or the machine that cephlab runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.tunables.machine import THIS_MACHINE, Machine, ThisMachine
from cephlab.lab.tunables.options import CephOptions
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Scope
from cephlab.lab.tunables.tune import MACHINE_SCOPES, Site, Target

FOLDER = "tunings"


def this_machine(home: Home) -> Target:
    """The machine that cephlab runs on; its records outlive every cluster."""
    return Target(THIS_MACHINE, (Site(Machine(THIS_MACHINE, ThisMachine())),), None, Records(home.path / FOLDER))


def of_cluster(cluster: Cluster, capabilities: frozenset[Capability]) -> Target:
    """A cluster and its hosts. capabilities: of its provider; they tell what each host has for itself."""
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
    """One site for each host that has scopes of its own, and one for what they share with the machine below."""
    up = [host for host in hosts.values() if host.up()]
    if not up:
        raise LabBroken("every host of the cluster is down", f"hosts: {', '.join(hosts)}")
    if own:
        for host in up:
            yield Site(Machine(host.name, host, host.address), owned=own)
    shared = MACHINE_SCOPES - own
    if shared:
        yield Site(_below(up), owned=frozenset(), shared=shared)


def _below(up: Sequence[Host]) -> Machine:
    """The machine that runs the hosts, seen from one of them, which is a native one if possible."""
    host = next((host for host in up if not host.emulated), up[0])
    return Machine(f"the machine below {', '.join(machine.name for machine in up)}", host, host.address)
