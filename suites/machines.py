"""Which profile a run is held against, and whether the hosts that it runs on are machines of it."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.home import Home
from lab.providers.select import provider
from lab.scenario import Stage
from lab.spec import Capability
from tuning.profile import Profile
from tuning.profilefile import THIS_MACHINE, find_profile

SHARES_THIS_MACHINE = ("local", "container")
"""Providers whose native hosts are this machine, with no hypervisor of the lab's between."""


def home_of(cluster: Cluster) -> Home:
    """The home that the cluster's run belongs to."""
    return Home(cluster.run.directory.parent.parent)


def profile_of(stage: Stage) -> Profile | None:
    """The one that was named, None without."""
    return find_profile(stage.profile, home_of(stage.cluster).profiles) if stage.profile else None


def are_machines_of(provider_name: str, profile: Profile) -> bool:
    """Whether native hosts of a provider are machines of a profile: this one, or those that a user has."""
    if profile.name == THIS_MACHINE:
        return provider_name in SHARES_THIS_MACHINE
    return Capability.HARDWARE in provider(provider_name).capabilities()
