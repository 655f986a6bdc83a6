"""What an OSD of a profile's machine may take of its memory, by Ceph's own rule, and what it lacks."""

from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.units import Measure, show

SHARE = 0.7
"""mgr/cephadm/autotune_memory_target_ratio, Ceph's default: of a machine's memory for all of its OSDs."""
TARGET_BYTES = 4.0 * (1 << 30)
"""osd_memory_target, Ceph's default."""
LEAST_BYTES = 896.0 * (1 << 20)
"""osd_memory_target_min, Ceph's default: it refuses a smaller target."""
OVER = 1.2
"""An OSD is allowed a fifth more than its target, as Ceph's hardware recommendations leave room for."""
SOURCE = "osd_memory_target_autotune: 0.7 of a machine's memory, shared by its OSDs"


def osd_bytes(machine: MachineClass) -> float:
    """Bytes for each OSD of a machine; 0 where it has none."""
    return SHARE * machine.memory.value / machine.osds if machine.osds else 0.0


def doubts(profile: Profile) -> list[str]:
    """Sentences on machines whose OSDs get less than Ceph's default target."""
    said = []
    for machine in profile.nodes:
        each = osd_bytes(machine)
        if not each or each >= TARGET_BYTES:
            continue
        means = "Ceph refuses so small a target" if each < LEAST_BYTES else "fewer reads are answered from memory"
        said.append(
            f"Memory of {machine.name}: {show(each, Measure.BYTES)} for each of its {machine.osds} OSDs ({SOURCE}), "
            f"where Ceph's default is {show(TARGET_BYTES, Measure.BYTES)}: {means}."
        )
    return said
