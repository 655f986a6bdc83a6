"""A lab's migration at the paper's size: the share of a node's data that had to move, at the speed of its machines.

The paper is the white paper Ceph on Ampere Altra (2023), sections 9.1 and 9.2; its figures are those of
`tuning/references/ampere-altra.toml`.
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
    """seconds: that copying takes on the paper's machines; published_s: what it took there; why: with all numbers."""

    seconds: float
    published_s: float
    why: str


def at_scale(procedure: str, moved_bytes: float, held_bytes: float) -> AtScale:
    """How long the paper's cluster would copy when it moved as large a share of a node's data as the lab did.

    procedure: SWAP or REUSE; held_bytes: what the nodes that were replaced held. What a node of the paper holds, and
    which share of disks and network recovery gets beside the clients, is that of its figure for a replaced node.
    """
    reference = load_reference(REFERENCES / f"{REFERENCE}.toml")
    figures = {figure.name: figure for figure in reference.figures}
    published, rebuild = figures[procedure], figures[SWAP].recovery
    if rebuild is None:
        raise LabBroken(f"{reference.name}: {SWAP} does not say what had to be copied", hint="mend the reference")
    share = moved_bytes / held_bytes
    profile = load_profile(PROFILES / f"{reference.profile}.toml")
    made = recovery_time(
        profile, rebuild.data_bytes * share, nodes_lost=rebuild.nodes_lost, nodes=rebuild.nodes, share=rebuild.share
    )
    why = (
        f"published: {published.where}; here {share:.3g} of what the replaced nodes held was moved, of the paper's "
        f"{rebuild.data_bytes:.3g} B on {profile.name} that takes {made.seconds:,.0f} s, limited by {made.limit}"
    )
    return AtScale(made.seconds, published.value, why)
