"""Scales a lab's migration to the paper's machines: the same share of a node's data, at their speed.

The paper is the white paper Ceph on Ampere Altra (2023), sections 9.1 and 9.2. `tuning/references/ampere-altra.toml`
has its figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from cephlab.lab.base.errors import LabBroken
from cephlab.tuning.profilefile import SHIPPED as PROFILES
from cephlab.tuning.profilefile import load_profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.references import SHIPPED as REFERENCES
from cephlab.tuning.references import load_reference

REFERENCE = "ampere-altra"
SWAP = "recovery of one replaced node"
REUSE = "recovery after disk reuse"


@dataclass(frozen=True)
class AtScale:
    """seconds: predicted for the paper's machines; published_s: the paper's own time; why: the numbers behind both."""

    seconds: float
    published_s: float
    why: str


def at_scale(procedure: str, moved_bytes: float, held_bytes: float) -> AtScale:
    """Predict the time in which the paper's cluster moves as large a share of a node's data as the lab moved.

    procedure: SWAP or REUSE; held_bytes: the data of the replaced nodes. The paper's figure for a replaced node says
    how much such a node holds, and which share of disks and network recovery gets beside the clients.
    """
    reference = load_reference(REFERENCES / f"{REFERENCE}.toml")
    figures = {figure.name: figure for figure in reference.figures}
    published, rebuild = figures[procedure], figures[SWAP].recovery
    if rebuild is None:
        raise LabBroken(f"{reference.name}: {SWAP} does not say how much was copied", hint="complete the reference")
    share = moved_bytes / held_bytes
    profile = load_profile(PROFILES / f"{reference.profile}.toml")
    predicted = recovery_time(
        profile, rebuild.data_bytes * share, nodes_lost=rebuild.nodes_lost, nodes=rebuild.nodes, share=rebuild.share
    )
    why = (
        f"published: {published.where}; {share:.3g} of the replaced nodes' data moved here; as much of the paper's "
        f"{rebuild.data_bytes:.3g} B takes {predicted.seconds:,.0f} s on {profile.name}, limited by {predicted.limit}"
    )
    return AtScale(predicted.seconds, published.value, why)
