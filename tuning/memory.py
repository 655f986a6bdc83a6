"""Memory of a profile's machines: how much of it an OSD may take, and how many bytes an operation moves through it."""

from dataclasses import replace

from cephlab.tuning import placement
from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.placement import MachineLoad
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.units import Measure, show
from cephlab.tuning.work import OperationWork
from cephlab.tuning.workload import Flow, Shape

SHARE = 0.7
"""mgr/cephadm/autotune_memory_target_ratio, Ceph's default: of a machine's memory for all of its OSDs."""
TARGET_BYTES = 4.0 * (1 << 30)
"""osd_memory_target, Ceph's default."""
LEAST_BYTES = 896.0 * (1 << 20)
"""osd_memory_target_min, Ceph's default: it refuses a smaller target."""
OVER = 1.2
"""An OSD may take a fifth more than its target. Ceph's hardware recommendations leave room for that."""
SOURCE = "osd_memory_target_autotune: 0.7 of a machine's memory, shared by its OSDs"

LINKED = 5.0
"""Bytes to or from memory for each byte of a link: the network card's own access, the messenger's checksum
(`ms_crc_data`) and the kernel's copy, which reads, fetches the line that it writes to (write allocate), and writes."""
STORED = 2.0
"""Likewise for each byte of a disk: the device's own access, and BlueStore's checksum (`bluestore_csum_type`)."""
TRAFFIC_SOURCE = (
    "traffic on the memory bus, counted as in Clark, Jacobson, Romkey and Salwen 1989 (An Analysis of TCP "
    "Processing Overhead), without any CPU cache: an upper bound"
)


def linked(payload_bytes: float) -> float:
    """Bytes to and from memory for this many bytes of a link, in either direction."""
    return LINKED * payload_bytes


def moved(load: MachineLoad, work: OperationWork) -> float:
    """Bytes to and from one machine's memory for one client operation: for its links, its disks and its coding.

    The primary of an erasure-coded write reads the block and writes m / k of it. Traffic between daemons of the same
    machine is not counted.
    """
    shape, wire = work.shape, placement.wire(load, work)
    links = wire.front_in + wire.front_out + wire.back_in + wire.back_out
    shards = load.primary + placement.replica_share(load, shape)
    coded = load.primary * shape.payload_bytes * (1 + shape.m / shape.k) if _encodes(work) else 0.0
    return linked(links) + STORED * shards * shape.shard_bytes + coded


def _encodes(work: OperationWork) -> bool:
    return bool(work.shape.k) and work.shape.flow is Flow.WRITE and not work.shape.bare


def osd_bytes(machine: MachineClass) -> float:
    """Bytes for each OSD of a machine; 0 where it has none."""
    return SHARE * machine.memory.value / machine.osds if machine.osds else 0.0


OBJECT_BYTES = 4 * (1 << 20)
"""Size of an image's object, and the largest RADOS object of a gateway: defaults of both."""
BLOB_BYTES = 64 * 1024
"""bluestore_max_blob_size: one entry of an object's metadata."""
ONODE_BYTES, ENTRY_BYTES, OVERWRITTEN_BYTES = 1200, 430, 660
"""In BlueStore's cache: for an object, for each blob written once, or overwritten in 4 KiB; docs/measured/model.md."""
BASE_BYTES, FRAGMENTED, META = 768.0 * (1 << 20), 0.15, 0.45
"""osd_memory_base, osd_memory_expected_fragmentation and bluestore_cache_meta_ratio, Ceph's defaults."""


def cache_bytes(machine: MachineClass) -> float:
    """Bytes of object metadata that one OSD keeps in memory, by Ceph's default ratios; 0 where it keeps none."""
    return max(0.0, META * ((1 - FRAGMENTED) * osd_bytes(machine) - BASE_BYTES))


def metadata_bytes(profile: Profile, shape: Shape) -> float:
    """Bytes that object metadata takes in one OSD's memory if all of it is there, on average."""
    size = min(shape.block_bytes, OBJECT_BYTES) if shape.through_gateway else OBJECT_BYTES
    shard = replace(shape, block_bytes=size, operation="put" if shape.bare else shape.operation).shard_bytes
    entry = ENTRY_BYTES if shape.through_gateway else OVERWRITTEN_BYTES
    each = ONODE_BYTES + max(1, -(-int(shard) // BLOB_BYTES)) * entry
    return shape.data_bytes / size * shape.copies / profile.osds * each


def missed(profile: Profile, shape: Shape) -> tuple[float, DerivationStep] | None:
    """Share of evenly spread reads whose metadata is not in memory, on the machine with the least; None: not known."""
    if not shape.data_bytes:
        return None
    machine = min((machine for machine in profile.nodes if machine.osds), key=cache_bytes)
    cache, needed = cache_bytes(machine), metadata_bytes(profile, shape)
    share = max(0.0, 1 - cache / needed)
    how = f"1 - {show(cache, Measure.BYTES)} of cache / {show(needed, Measure.BYTES)} of metadata per OSD"
    return share, DerivationStep(f"reads of metadata on {machine.name}", how, f"{share:.2f} of reads", CACHE_SOURCE)


CACHE_SOURCE = "a cache answers the share of evenly spread reads that it holds; bluestore_cache_meta_ratio"


def doubts(profile: Profile) -> list[str]:
    """Sentences on machines whose OSDs get less than Ceph's default target, or whose bandwidth is not known."""
    machines = (*profile.nodes, *(() if profile.clients_on_nodes else profile.clients))
    silent = dict.fromkeys(machine.name for machine in machines if machine.memory_bandwidth is None)
    sentences = []
    if silent:
        sentences.append(f"Memory bandwidth of {', '.join(silent)}: not in the profile, so it is no limit here.")
    for machine in profile.nodes:
        each = osd_bytes(machine)
        if not each or each >= TARGET_BYTES:
            continue
        means = "Ceph refuses a target this small" if each < LEAST_BYTES else "fewer reads are answered from memory"
        sentences.append(
            f"Memory of {machine.name}: {show(each, Measure.BYTES)} for each of its {machine.osds} OSDs ({SOURCE}), "
            f"and Ceph's default is {show(TARGET_BYTES, Measure.BYTES)}: {means}."
        )
    return sentences
