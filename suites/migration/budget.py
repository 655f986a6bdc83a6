"""Time limits of a migration: the Altra paper's own times, and what the run's profile requires of its machines."""

from collections.abc import Callable
from dataclasses import dataclass

from cephlab.lab.history.history import Basis, Bound
from cephlab.tuning.held import held, trust_in
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import SHIPPED as PROFILES
from cephlab.tuning.profilefile import Hardware, load_profile
from cephlab.tuning.recovery import recovery_of_largest
from cephlab.tuning.references import SHIPPED as REFERENCES
from cephlab.tuning.references import load_reference
from cephlab.tuning.validate import rebuilt

REFERENCE = "ampere-altra"
"""The white paper Ceph on Ampere Altra (2023), sections 9.1 and 9.2, which gives the figures."""
SWAP = "recovery of one replaced node"
REUSE = "recovery after disk reuse"


@dataclass(frozen=True)
class AtScale:
    """seconds: predicted for the paper's machines; bound: the paper's own time, and how the prediction follows."""

    seconds: float
    bound: Bound


def at_scale(procedure: str, moved_bytes: float, held_bytes: float) -> AtScale:
    """Predict the time that the paper's cluster takes to move the same share of a node's data as the lab moved.

    procedure: SWAP or REUSE; held_bytes: the data of the replaced nodes. The paper's figure for a replaced node tells
    how much data such a node holds, and which share of disks and network recovery gets under client load.
    """
    reference = load_reference(REFERENCES / f"{REFERENCE}.toml")
    figures = {figure.name: figure for figure in reference.figures}
    published, rebuild = figures[procedure], figures[SWAP].recovery
    assert rebuild is not None, f"{REFERENCE}: {SWAP} has no recovery"
    share = moved_bytes / held_bytes
    profile = load_profile(PROFILES / f"{reference.profile}.toml")
    whole = rebuilt(profile, rebuild)
    seconds = whole.seconds * share
    why = (
        f"published: {published.where}; {share:.3g} of the replaced nodes' data moved here; the same share of the "
        f"paper's {rebuild.data_bytes:.3g} B takes {seconds:,.0f} s on {profile.name}, limited by {whole.limit}"
    )
    # The machines are always the paper's, so the limit is one on the share that moved here, whatever the profile.
    return AtScale(seconds, Bound(why, most=published.value, basis=Basis.SHAPE))


FILL = 0.7
"""Used share of the largest node's disks if a profile has no recovery requirement: as full as the paper's cluster."""
TOLERANCE = 1.02
"""Factor on moved bytes. It can be small, because Ceph counts only what it recovers, and nothing else writes there."""


@dataclass(frozen=True)
class ByProfile:
    """seconds: the model's time for the run's machines, from low to high; bound: the profile's requirement, if any."""

    seconds: float
    low: float
    high: float
    bound: Bound


def by_profile(hardware: Hardware, moved_share: float, find: Callable[[str], Profile]) -> ByProfile:
    """Predict the time that a profile's cluster takes to move the same share of a node's data as the lab moved.

    moved_share: of the replaced nodes' data. The limit is the profile's own recovery requirement, which may state how
    full a node is and which share of disks and network recovery gets. Without a requirement there is no limit.
    """
    profile, wanted = hardware.profile, hardware.recovery
    trust = trust_in((), find)
    factor = trust.recovery
    if wanted is None:
        recovery = recovery_of_largest(profile, FILL * max(machine.weight for machine in profile.nodes))
        whole_s, limit, steps = recovery.seconds, recovery.limit, recovery.derivation.lines()
        source, most = f"the model's own figure, because {profile.name} has no recovery requirement", None
    else:
        # A migration replaces what left by a new machine or by the old disks.
        [answer] = held(wanted.model_copy(update={"replaced": True}), profile, (), trust)
        whole_s, limit, steps = answer.value, answer.limited_by, list(answer.steps)
        source, most = f"required by {wanted.name} in the profile", wanted.at_most.value
    seconds = whole_s * moved_share
    why = (
        f"{source}; {moved_share:.3g} of the replaced nodes' data moved here, and all data of a node takes "
        f"{whole_s:,.0f} s on {profile.name}, limited by {limit}; the model is trusted to a factor of {factor:.3g}"
    )
    bound = Bound(why, most=most, derivation=steps, basis=Basis.PROFILE)
    return ByProfile(seconds, seconds / factor, seconds * factor, bound)
