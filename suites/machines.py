"""Which profile a run is held against, and whether the hosts that it runs on are machines of it."""

from __future__ import annotations

from cephlab.lab.providers.base import Provider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import Capability
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE, find_profile


def profile_of(stage: Stage) -> Profile | None:
    """The one that was named, None without."""
    return find_profile(stage.profile, stage.cluster.run.home.profiles) if stage.profile else None


def are_machines_of(provider: Provider, profile: Profile) -> bool:
    """Whether native hosts of a provider are machines of a profile: this one, or those that a user has."""
    needed = Capability.THIS_MACHINE if profile.name == THIS_MACHINE else Capability.HARDWARE
    return needed in provider.capabilities()
