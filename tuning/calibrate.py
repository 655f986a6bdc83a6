"""Calibration: turns the lab's costs and data-sheet figures into those of a loaded cluster, by the free constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cephlab.lab.spec.clusterspec import number_of
from cephlab.lab.telemetry.demand import Demand
from cephlab.lab.telemetry.describe import size_text
from cephlab.tuning.constants import Constants
from cephlab.tuning.daemons import BATCHING, EVENTS, SMT_GAIN, thread_speed
from cephlab.tuning.profile import DiskRole, Disks, Figure, MachineClass, Profile
from cephlab.tuning.work import OperationWork, Price
from cephlab.tuning.workload import Flow

ANCHOR = 6.43
"""Points of the CPU that the shipped demands were measured on. The exponent changes no cost there."""

_FIRST = 15
"""Octopus: the first release whose costs are taken to fall step by step. Older ones store data in other ways."""

_FAST_CODES = 20
"""Tentacle: the first release with allow_ec_optimizations, which a pool has only where it is turned on."""

_LAST = 18
"""Reef: the last one. Measured: Tentacle's writes cost 0.97 times Reef's (0.90 to 1.04)."""

BESIDE = ("pacific", "tentacle")
"""Releases whose reads and writes of SMALLEST bytes were measured side by side with Reef's: docs/measured/model.md."""

SMALLEST = 4096

READ_STEP = 0.25
"""How much of a release's step reads take. Measured, Pacific over Reef, two steps: writes +21 %, reads +4.6 %."""

LARGE_BYTES = 64 * 1024
"""At this block size half of the cost is per operation and half per byte, from 4 KiB and 4 MiB of the shipped set."""

SMALL_BYTES = 16 * 1024
"""Demands up to this size were measured with many connections. A single operation does not pay for those."""

SPARSE, DENSE = 2.0, 64.0
"""Operations in flight on each connection to an OSD: with a demand's many connections, and with a single connection."""

SMALL_WRITE = 4096.0
"""Size of the writes that data sheets rate in I/Os a second, in bytes."""


def speed(points: float, constants: Constants) -> float:
    """Ceph's speed on a CPU with this many points, on the same scale."""
    return float(ANCHOR * (points / ANCHOR) ** constants.speed_exponent)


def core(points: float, threads: int, constants: Constants) -> float:
    """Ceph's speed on a core with this many points, on the same scale, while all its threads are busy.

    Each thread is scaled by itself, as the gain of a core's second thread does not come from Ceph.
    """
    gain = SMT_GAIN if threads > 1 else 1.0
    return speed(points / gain, constants) * gain


def demands(measured: Sequence[Demand], constants: Constants) -> list[Demand]:
    """Demands on the scale of `speed`. A demand without a core speed stays as it is and is refused later."""
    return [
        replace(demand, core_speed=speed(demand.core_speed, constants)) if demand.core_speed > 0 else demand
        for demand in measured
    ]


def hardware(profile: Profile, flow: Flow, constants: Constants) -> Profile:
    """The profile with the figures that a loaded cluster reaches, for reads or for writes."""
    share = constants.link_share
    nodes = tuple(_machine(machine, share * _meeting(flow, constants), constants) for machine in profile.nodes)
    clients = tuple(_machine(machine, share, constants) for machine in profile.clients)
    uplink = profile.uplink.times(share) if profile.uplink else None
    return replace(profile, nodes=nodes, clients=clients, uplink=uplink)


def _meeting(flow: Flow, constants: Constants) -> float:
    """Incast: copies and shards of a write converge on the nodes' ports, the data of a read only leaves them."""
    return constants.incast if flow is Flow.WRITE else 1.0


def _machine(machine: MachineClass, share: float, constants: Constants) -> MachineClass:
    fast = speed(thread_speed(machine), constants)

    def link(figure: Figure | None) -> Figure | None:
        return figure.times(share) if figure else None

    return replace(
        machine,
        core_speed=replace(
            machine.core_speed, value=core(machine.core_speed.value, machine.threads_per_core, constants)
        ),
        thread_speed=replace(machine.core_speed, value=fast),
        bandwidth=machine.bandwidth.times(share),
        cluster_bandwidth=link(machine.cluster_bandwidth),
        disks=tuple(_disks(disks, constants) for disks in machine.disks),
    )


def _disks(disks: Disks, constants: Constants) -> Disks:
    if disks.kind.rotates:
        return disks
    iops = disks.write_iops.times(_newness(disks, constants)) if disks.write_iops else None
    log_only = disks.role is DiskRole.METADATA
    share = 1.0 if log_only else constants.flash_bandwidth
    return replace(disks, write_iops=iops, seq_write=disks.seq_write.times(share) if disks.seq_write else None)


def _newness(disks: Disks, constants: Constants) -> float:
    """How many times its rated random writes a disk does while it is not full: up to its sequential bandwidth."""
    if not (disks.write_iops and disks.seq_write):
        return 1.0
    sequential = disks.seq_write.value / SMALL_WRITE / disks.write_iops.value
    return float(max(1.0, sequential ** (1 - constants.flash_full)))


def loaded(work: OperationWork, constants: Constants, release: str = "") -> OperationWork:
    """The price of an operation on a busy cluster. release: of Ceph on that cluster; empty: that of the demands."""
    size = work.shape.payload_bytes
    osd = constants.osd_cpu * constants.byte_cpu ** (size / (size + LARGE_BYTES))
    part = READ_STEP if work.shape.flow is Flow.READ else 1.0
    osd *= constants.release_step ** (part * steps(work.release, release))
    return replace(
        work,
        primary=_osd(work.primary, osd, constants),
        replica=_osd(work.replica, osd, constants),
        reread=_osd(work.reread, constants.osd_cpu, constants) if work.reread else None,
        gateway=work.gateway.times(constants.gateway_cpu) if work.gateway else None,
        metadata_reads=constants.metadata_reads,
    )


def connected(work: OperationWork, osds: int, constants: Constants) -> OperationWork:
    """The price of a small replicated operation, by how many are in flight between a client and each of `osds` OSDs.

    The more are in flight, the more an OSD takes from a connection in one go.
    """
    shape = work.shape
    if shape.k or shape.through_gateway or shape.block_bytes > SMALL_BYTES:
        return work
    dense = math.log(max(SPARSE, min(DENSE, shape.depth / osds)) / SPARSE) / math.log(DENSE / SPARSE)
    factor = constants.one_connection**dense
    return replace(work, primary=_cpu_times(work.primary, factor), replica=_cpu_times(work.replica, factor))


def steps(measured: str, wanted: str) -> int:
    """How many releases lie from the wanted one to the measured one, counting only Octopus to Reef, where costs fell.

    0 where either of the two is unknown or older.
    """
    numbers = [min(number_of(name) or 0, _LAST) for name in (measured, wanted)]
    return numbers[0] - numbers[1] if min(numbers) >= _FIRST else 0


def release_doubts(work: OperationWork, release: str) -> list[str]:
    """Doubts, as sentences: the release was never measured at this size, or an option changes its costs.

    release: of Ceph on the cluster; empty: that of the demands.
    """
    shape, wanted = work.shape, release or work.release
    beside = wanted in BESIDE and shape.block_bytes == SMALLEST and not shape.k and not shape.through_gateway
    sentences = []
    if wanted != work.release and not beside:
        what = f"{shape.operation} of {size_text(shape.block_bytes)}, {shape.protection},"
        sentences.append(f"{what} was never measured on {wanted} at this size: its costs are those of {work.release}.")
    if shape.k and (number_of(wanted) or 0) >= _FAST_CODES:
        sentences.append(
            "allow_ec_optimizations was never measured, and none of the publications has a figure for it: the "
            "prediction is for a pool without it."
        )
    return sentences


def _osd(price: Price, factor: float, constants: Constants) -> Price:
    """CPU times `factor`; device work unchanged. Threads that take all waiting work in one go cost less when busy."""
    busy = dict.fromkeys((*BATCHING, *EVENTS), constants.busy_thread)
    threads = {name: points * factor * busy.get(name, 1.0) for name, points in price.threads.items()}
    return replace(price, cpu=price.cpu * factor, threads=threads)


def lone(work: OperationWork, constants: Constants) -> OperationWork:
    """The price of an operation alone on the cluster, from its price on a busy one."""
    factor = constants.one_connection if work.shape.block_bytes <= SMALL_BYTES else 1.0
    return replace(
        work,
        client=_cpu_times(work.client, factor),
        primary=_cpu_times(work.primary, factor),
        replica=_cpu_times(work.replica, factor),
        gateway=_cpu_times(work.gateway, factor) if work.gateway else None,
        reread=_cpu_times(work.reread, factor) if work.reread else None,
    )


def _cpu_times(price: Price, factor: float) -> Price:
    return replace(price, cpu=price.cpu * factor, threads={n: p * factor for n, p in price.threads.items()})
