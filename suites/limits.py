"""Limits of service: no errors, and no wait longer than it takes to notice a dead OSD and copy what it missed."""

from dataclasses import dataclass

from cephlab.lab.ceph.daemon import STOP_S
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.machines import hardware_of, machines_with_osds
from cephlab.tuning.limits import recovery_factor
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.units import Measure, show

RECORDED = Bound("recorded only: it depends on this machine", basis=Basis.NOTED)
"""Of a time or a rate that has no limit on any machine."""


def no_errors(recorder: Recorder, why: str) -> None:
    """Allow clients no errors. why: the reason that the verdict shows."""
    recorder.limit("client_errors", 0, "", why, basis=Basis.CORRECTNESS)


@dataclass(frozen=True)
class Copying:
    """seconds: what copying may take on the profile's machines, 0 without a profile; why, derivation: of that limit."""

    seconds: float = 0.0
    why: str = "no profile states how fast its machines copy"
    derivation: tuple[str, ...] = ()

    @property
    def basis(self) -> Basis:
        """Of a limit that is a sum of settings and this time. Without a profile it is the same for all machines."""
        return Basis.PROFILE if self.seconds else Basis.CORRECTNESS


def copying(stage: Stage, data_bytes: float, kind: PoolKind = REPLICATED) -> Copying:
    """The time that the model allows the profile's machines to copy one machine's part of some data again.

    data_bytes: before replication or erasure coding, spread over the machines with OSDs. Recovery gets the share of
    disks and network that the profile's recovery requirement gives it, or all of it if there is no such requirement.
    """
    hardware, cluster = hardware_of(stage), stage.cluster
    if hardware is None:
        return Copying()
    machines = machines_with_osds(cluster)
    part = data_bytes * kind.size / max(1, kind.k) / machines
    share = hardware.recovery.share if hardware.recovery else 1.0
    recovery = recovery_time(hardware.profile, part, nodes=max(2, machines), share=share, k=kind.k)

    def find(name: str) -> Profile:
        return find_profile(name, cluster.run.home.profiles)

    factor = recovery_factor((), find)
    allowed = recovery.seconds * factor
    why = (
        f"{allowed:.3g} s for copying {show(part, Measure.BYTES)} on a machine of {hardware.profile.name}, limited by "
        f"{recovery.limit}; the model is trusted to a factor of {factor:.3g}"
    )
    return Copying(allowed, why, tuple(recovery.derivation.lines()))


MON_LEASE_S = 5.0
"""Ceph's default of mon_lease, in all releases."""


def until_noticed(cluster: Cluster, peering_s: float, copied: Copying, *, mon_lost: bool = False) -> Bound:
    """The longest wait: the time for noticing a dead OSD, peering without it, and copying the data that clients use.

    peering_s: for peering and the first operations afterwards, before patience. mon_lost: a monitor may fail with the
    OSD. The others notice that after two leases, and only then does anyone hear of the OSD.
    """
    options = own(cluster).deployment.options
    grace = float(options["osd_heartbeat_grace"])
    lease = 2 * float(options.get("mon_lease", MON_LEASE_S)) if mon_lost else 0.0
    why = (
        f"osd_heartbeat_grace {grace:g} s, {f'two mon_lease {lease:g} s, ' if mon_lost else ''}then {peering_s:g} s of "
        f"peering times a patience of {cluster.patience:g}; {copied.why}"
    )
    most = grace + lease + peering_s * cluster.patience + copied.seconds
    return Bound(why, most=most, derivation=copied.derivation, basis=copied.basis)


def wait_until_noticed(stage: Stage, peering_s: float, copied: Copying) -> None:
    """Limit every wait of a recorded load as `until_noticed` says."""
    bound = until_noticed(stage.cluster, peering_s, copied)
    stage.recorder.limit("longest_wait_s", bound.most or 0.0, "s", bound.why, basis=copied.basis)


def stop_noted(cluster: Cluster, recorder: Recorder, name: str) -> None:
    """Stop a daemon. If it had to be killed (`Cluster.stop_or_kill`), record that in the history as a defect."""
    if not cluster.stop_or_kill(name):
        note_killed(recorder, name)


def note_killed(recorder: Recorder, name: str) -> None:
    """Record a daemon that did not stop. This is a defect in Ceph, and the scenario goes on after it."""
    recorder.record("defect", daemon=name, seen=f"it did not stop in {STOP_S:g} s", done="killed")
