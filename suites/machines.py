"""The profile that a run is compared with, whether its hosts match that profile, and what each of them is for."""

from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.base import Provider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import Capability
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE, Hardware, find_hardware, find_profile


def profile_of(stage: Stage) -> Profile | None:
    """The profile that the user named, if any."""
    return find_profile(stage.profile, stage.cluster.run.home.profiles, stage.changes) if stage.profile else None


def hardware_of(stage: Stage) -> Hardware | None:
    """The profile that the user named, with its requirements."""
    return find_hardware(stage.profile, stage.cluster.run.home.profiles, stage.changes) if stage.profile else None


def are_machines_of(provider: Provider, profile: Profile) -> bool:
    """Whether a provider's native hosts are the profile's own machines: this machine, or the user's hardware."""
    needed = Capability.THIS_MACHINE if profile.name == THIS_MACHINE else Capability.HARDWARE
    return needed in provider.capabilities()


def at_home(stage: Stage) -> bool:
    """Whether the run's hosts are the machines of the named profile, so that its figures are judged."""
    profile = profile_of(stage)
    return profile is not None and are_machines_of(stage.cluster.provider, profile)


def profile_of_disks(stage: Stage) -> Profile | None:
    """The named profile if the run's hosts are its machines and the lab does not throttle their disks, else None."""
    profile = profile_of(stage)
    if profile is None or not are_machines_of(stage.cluster.provider, profile):
        return None
    limited = any(disk.limits.any() for node in stage.cluster.spec.nodes for disk in node.disks)
    return None if limited else profile


def is_client(cluster: Cluster, name: str) -> bool:
    """Whether a machine is there for clients only: it has no daemons, and in an inventory the role client."""
    with_daemons = {node.name for node in cluster.spec.nodes if node.has_daemons}
    chosen = not isinstance(cluster, AttachedCluster) or name in cluster.load_nodes()
    return chosen and name not in with_daemons


def machine_of_osds(cluster: Cluster) -> dict[int, str]:
    """OSD -> the machine that it runs on."""
    return {osd: cluster.host_of(f"osd.{osd}").name for osd in cluster.osd_ids()}


def machines_with_osds(cluster: Cluster) -> int:
    """How many machines have OSDs."""
    return len(set(machine_of_osds(cluster).values()))
