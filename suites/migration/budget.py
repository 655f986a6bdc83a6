"""What a migration may take: the Altra paper's own times, and what the run's profile predicts for its machines."""

from dataclasses import dataclass

from cephlab.lab.base.errors import LabBroken
from cephlab.tuning.profilefile import SHIPPED as PROFILES
from cephlab.tuning.profilefile import Hardware, load_profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.references import SHIPPED as REFERENCES
from cephlab.tuning.references import load_reference

REFERENCE = "ampere-altra"
"""The white paper Ceph on Ampere Altra (2023), sections 9.1 and 9.2, which has the figures."""
SWAP = "recovery of one replaced node"
REUSE = "recovery after disk reuse"


@dataclass(frozen=True)
class AtScale:
    """seconds: predicted for the paper's or the run's machines; budget_s: what it may take; why: how it follows."""

    seconds: float
    budget_s: float
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


FILL = 0.7
"""Of the largest node's disks, where a profile has no requirement of recovery: as full as the paper's cluster was."""
TOLERANCE = 1.02
"""Factor on moved bytes. Ceph counts only what it recovers, and nothing else writes to the pool."""


def by_profile(hardware: Hardware, procedure: str, moved_share: float) -> AtScale:
    """Predict the time in which a profile's cluster moves as large a share of a node's data as the lab moved.

    moved_share: of the replaced nodes' data. The budget is the profile's own requirement of recovery, which may say how
    full a node is and what share of disks and network recovery gets. Without one it is the time to copy a node's data
    once; for REUSE as much less of it as the paper's budget for that is less.
    """
    profile, wanted = hardware.profile, hardware.recovery
    heaviest = max(machine.weight for machine in profile.nodes)
    data_bytes = FILL * heaviest
    lost, share, k = 1, 1.0, 0
    if wanted is not None:
        data_bytes = wanted.bytes.value if wanted.bytes else (wanted.fill or 0.0) * heaviest
        lost, share, k = wanted.nodes_lost, wanted.share, wanted.protection.k
    whole = recovery_time(profile, data_bytes, nodes_lost=lost, share=share, k=k)
    budget_s = wanted.at_most.value if wanted is not None and procedure == SWAP else whole.seconds * TOLERANCE
    said = f"wanted by its requirement {wanted.name}" if wanted is not None and procedure == SWAP else "to copy it once"
    if procedure == REUSE:
        figures = {figure.name: figure for figure in load_reference(REFERENCES / f"{REFERENCE}.toml").figures}
        part = figures[REUSE].value / figures[SWAP].value
        budget_s *= part
        said = f"to copy {part:.3g} of it, as the paper's time for reused disks is to that for new ones"
    why = (
        f"{moved_share:.3g} of the replaced nodes' data moved here; all of the {data_bytes:.3g} B of a node of "
        f"{profile.name} take {whole.seconds:,.0f} s, limited by {whole.limit}; budget: {said}"
    )
    return AtScale(whole.seconds * moved_share, budget_s, why)
