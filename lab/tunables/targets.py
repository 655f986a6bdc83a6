"""Where a tuning can go: a cluster with its machines, or the machine that cephlab runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.cluster import Cluster
from lab.errors import LabBroken
from lab.home import Home
from lab.host import Host
from lab.knobs.machine import THIS_MACHINE, Machine, ThisMachine
from lab.knobs.options import CephOptions
from lab.knobs.records import Records
from lab.knobs.settings import Scope
from lab.knobs.tune import MACHINE_SCOPES, Site, Target
from lab.spec import Capability

FOLDER = "tunings"


def this_machine(home: Home) -> Target:
    """The machine below; its records outlive every cluster."""
    return Target(THIS_MACHINE, (Site(Machine(THIS_MACHINE, ThisMachine())),), None, Records(home.path / FOLDER))


def of_cluster(cluster: Cluster, capabilities: frozenset[Capability]) -> Target:
    """A cluster and its hosts. capabilities: of its provider; they tell what the hosts have to themselves."""
    daemons = [daemon.name for daemon in cluster.daemons.values() if daemon.kind in ("mon", "osd") and daemon.alive()]
    return Target(
        cluster.name,
        tuple(sites_of(cluster.hosts, own_scopes(capabilities))),
        CephOptions(cluster.client, sorted(daemons)),
        Records(cluster.run.directory / FOLDER),
    )


def own_scopes(capabilities: frozenset[Capability]) -> frozenset[Scope]:
    """What each host of a provider has to itself: nothing, its network and files, or a kernel of its own too."""
    if Capability.OWN_KERNEL in capabilities:
        return MACHINE_SCOPES
    if Capability.OWN_NETWORK in capabilities:
        return frozenset({Scope.NETWORK, Scope.FILES})
    return frozenset()


def sites_of(hosts: Mapping[str, Host], own: frozenset[Scope]) -> Iterator[Site]:
    """One site for each host that has something to itself, and one for what they share with the machine below."""
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
    """The machine that carries the hosts, seen through one of them: a native one where there is one."""
    host = next((host for host in up if not host.emulated), up[0])
    return Machine(f"the machine below {', '.join(one.name for one in up)}", host, host.address)
