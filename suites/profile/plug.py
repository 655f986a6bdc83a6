"""Measures a power requirement: watts at the plug of every machine while all client machines write."""

from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.power import SAME_SHARE, watts_of_all
from cephlab.suites.machines import machines_with_osds
from cephlab.suites.profile.measured import FioLoad, Measured, Seen, measure
from cephlab.tuning import placement
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import LoadRequirement

GENERATORS = 4
"""fio processes on each client machine: a single one is bound by its own thread."""
DEPTH = 32
COPIES = 3


def under_load(stage: Stage, profile: Profile) -> Seen:
    """The watts of all machines of the cluster under 4 KiB writes, as exact as two sources agree with each other."""
    cluster = stage.cluster
    if other := unlike(cluster, profile):
        return Seen(None, why_not=other)
    copies = min(COPIES, machines_with_osds(cluster))
    requirement = LoadRequirement.model_validate(
        {
            "name": "writes",
            "op": "randwrite",
            "bs": "4k",
            "clients": GENERATORS * len(cluster.load_nodes()),
            "depth": DEPTH,
            "protection": f"replicated:{copies}",
            "at_least": "1 ops/s",
        }
    )
    return seen_at_the_plug(measure(stage, requirement, FioLoad("randwrite", {}), profile), requirement)


def seen_at_the_plug(measured: Measured, load: LoadRequirement) -> Seen:
    """The sum of all machines' watts; none where one was not measured, whatever the profile declares."""
    if not measured.plug:
        return Seen(None, why_not=measured.unplugged)
    sentences = (
        f"Power of {how_many(len(measured.plug), 'machine')} with daemons was measured by {measured.plug[0].source}, "
        f"under {measured.rate.mean:,.0f} writes of 4 KiB a second from {load.clients} fio processes with {load.depth} "
        f"in flight each, {load.protection}; another load may take more.",
        f"Its interval is {percent(SAME_SHARE, '.0f')} either way, as much as two sources of one machine may differ.",
        *measured.bias.said_of_watts,
    )
    return Seen(measured.bias.watts(watts_of_all(measured.plug)), sentences)


def unlike(cluster: Cluster, profile: Profile) -> str:
    """How the existing machines differ from the profile's, in words; empty where they may be the same."""
    there, declared = machines_with_osds(cluster), placement.hosts(profile)
    if there == declared:
        return ""
    return f"the cluster has OSDs on {how_many(there, 'machine')}, but {profile.name} on {declared}"
