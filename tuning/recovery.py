"""Recovery: how long a cluster takes to copy what a lost node held, by disks, network and the number of backfills."""

from __future__ import annotations

from dataclasses import dataclass

from tuning.ceilings import goodput
from tuning.derivation import Derivation, Step
from tuning.profile import Disks, Profile
from tuning.units import Kind, show

SOURCE = "BlueStore copies whole objects; osd_max_backfills reservations are taken on the sending and the receiving OSD"
OBJECT_BYTES = 4.0 * (1 << 20)
"""Objects of RBD and the stripes of the gateway have this size unless configured otherwise."""

SLEEP_S = {False: 0.0, True: 0.1}
"""osd_recovery_sleep_ssd and osd_recovery_sleep_hdd, Ceph's defaults: pause of a backfill after each object."""


@dataclass(frozen=True)
class Recovery:
    """seconds: to copy all; limit: what decides it; derivation: with its numbers."""

    seconds: float
    limit: str
    derivation: Derivation


def recovery_time(
    profile: Profile,
    data_bytes: float,
    *,
    nodes_lost: int = 1,
    nodes: int | None = None,
    share: float = 1.0,
) -> Recovery:
    """Time until what `nodes_lost` nodes held is copied again.

    data_bytes: on each of them. nodes: of the cluster, None: as the profile has. share: part of disks and network
    that recovery gets; the rest is the clients'. Each rate below bounds it; the least decides.
    """
    machine = max(profile.nodes, key=lambda one: one.count)
    whole = nodes or profile.node_count
    left = max(1, whole - nodes_lost)
    # A replaced node takes all of it in; when there is none, what is left shares it.
    whole_bytes = data_bytes * nodes_lost
    disks = machine.data_disks[0]
    osds = disks.count * disks.osds_per_disk
    rates = {
        "backfills": osds * nodes_lost * profile.max_backfills * OBJECT_BYTES / _object_s(disks, profile),
        "writing disks": _disk_rate(disks, writing=True) * disks.count * nodes_lost * share,
        "reading disks": _disk_rate(disks, writing=False) * disks.count * left * share,
        "network into the new node": machine.bandwidth.value * goodput(profile.mtu_bytes) * nodes_lost * share,
        "network out of the others": machine.bandwidth.value * goodput(profile.mtu_bytes) * left * share,
    }
    known = {name: rate for name, rate in rates.items() if rate > 0}
    limit = min(known, key=lambda name: known[name])
    seconds = whole_bytes / known[limit]
    steps = [Step(f"rate by {name}", "", show(rate, Kind.RATE), SOURCE) for name, rate in known.items()]
    steps.append(
        Step("recovery", f"{show(whole_bytes, Kind.BYTES)} / {show(known[limit], Kind.RATE)}", f"{seconds:,.0f} s")
    )
    return Recovery(seconds, limit, Derivation(tuple(steps)))


def _object_s(disks: Disks, profile: Profile) -> float:
    """Seconds that one backfill takes for an object: read, sent, written, and the pause after it."""
    parts = [
        OBJECT_BYTES / rate for rate in (_disk_rate(disks, writing=False), _disk_rate(disks, writing=True)) if rate
    ]
    waits = [figure.value for figure in (disks.read_latency, disks.sync_latency) if figure]
    return sum(parts) + sum(waits) + profile.rtt.value + SLEEP_S[disks.kind.rotates]


def _disk_rate(disks: Disks, *, writing: bool) -> float:
    """Bytes a second of one disk in whole objects, 0 where nothing is known."""
    bandwidth, iops = (disks.seq_write, disks.write_iops) if writing else (disks.seq_read, disks.read_iops)
    if bandwidth is None:
        return 0.0
    seek = 1 / iops.value if iops and disks.kind.rotates else 0.0
    return OBJECT_BYTES / (OBJECT_BYTES / bandwidth.value + seek)
