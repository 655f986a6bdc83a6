"""Unequal machines: four OSDs of different sizes on one node, different cores; checks weights, placement and load."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import GIB, Capability, ClusterSpec, Disk, Osd
from cephlab.suites.interop.load import loaded
from cephlab.suites.machines import machine_of_osds

SIZES = (10 * GIB, 10 * GIB, 20 * GIB, 40 * GIB)
"""Sizes of the disks of the first node."""
OTHERS_BYTES = 40 * GIB
"""Size of the one disk of each other node. With 10 GiB the nodes' weights were 8 to 1 to 1, and one of 65 PGs of three
copies stayed undersized, because CRUSH gives up after `choose_total_tries`, 50 by default."""
CORES = (0.5, 2.0, 1.0)
"""Cores of each node, in order, if they are unequal: many slow cores together with few fast ones, as in the Altra
paper's mixed cluster (section 7)."""
LOAD_S = 30.0
PG_NUM = 64
WEIGHT_TOLERANCE = 0.02
"""A weight has five decimals, and a store keeps some of its disk for itself."""
TIB = 1 << 40


@dataclass(frozen=True)
class UnlikeTopology(Topology):
    """A native node with four OSDs of SIZES, and nodes of the other architecture with one OSD each.

    There is also a client machine of each architecture, without daemons. unequal: the nodes have CORES.
    """

    native: int = 1
    foreign: int = 2
    clients: bool = True
    disk_bytes: int = OTHERS_BYTES
    unequal: bool = False

    unused: ClassVar[frozenset[str]] = frozenset({"osds_per_node", "separate_db", "lone_client"})

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        spec = super().lay_out(release, image, in_memory=in_memory)
        first, *others = spec.nodes
        disks = tuple(Disk(f"{first.name}-block{number}", size) for number, size in enumerate(SIZES))
        first = replace(first, disks=disks, osds=tuple(Osd(disk.name) for disk in disks))
        cores = dict(zip((node.name for node in spec.nodes), CORES if self.unequal else (), strict=False))
        return replace(spec, nodes=tuple(replace(node, cores=cores.get(node.name)) for node in (first, *others)))


def run(stage: Stage) -> None:
    """Compare each OSD's weight with its disk, and the placement with the weights; then load from clients of both."""
    weights, sizes = weights_of(stage.cluster), sizes_of(stage.cluster)
    note_weights(stage.recorder, weights, sizes)
    with pools.pool(stage.cluster, "unlike", pg_num=PG_NUM) as pool:
        bytes_of = dict.fromkeys(weights, 0)
        for pg in pools.pgs_of(stage.cluster, pool):
            for osd in pg.acting:
                bytes_of[osd] += 1
    machines = machine_of_osds(stage.cluster)
    first = {osd: size for osd, size in sizes.items() if machines[osd] == "n0"}
    note_placement(stage.recorder, bytes_of, first)
    loaded(stage, LOAD_S)


def weights_of(cluster: Cluster) -> dict[int, float]:
    """CRUSH weight of each OSD."""
    return {int(osd["id"]): float(osd["crush_weight"]) for osd in cluster.client.mon("osd df")["nodes"]}


def sizes_of(cluster: Cluster) -> dict[int, int]:
    """Bytes of each OSD's disk, by the spec."""
    by_osd: dict[int, int] = {}
    machines = machine_of_osds(cluster)
    for node in cluster.spec.nodes:
        size_of = {disk.name: disk.size_bytes for disk in node.disks}
        own = [osd for osd, machine in machines.items() if machine == node.name]
        by_osd |= {osd: size_of[wanted.block] for osd, wanted in zip(sorted(own), node.osds, strict=True)}
    return by_osd


def note_weights(recorder: Recorder, weights: Mapping[int, float], sizes: Mapping[int, int]) -> None:
    """Judge that each weight is the disk's size in TiB, whichever architecture made the store."""
    recorder.witness("OSDs with a weight", got=len(weights), least=len(sizes))
    for osd, size in sizes.items():
        why = f"the disk has {size / TIB:.5f} TiB"
        bound = Bound(why, 1 - WEIGHT_TOLERANCE, 1 + WEIGHT_TOLERANCE, basis=Basis.CORRECTNESS)
        recorder.figure(f"weight of osd.{osd} over its disk", weights.get(osd, 0.0) * TIB / size, "", bound)


def note_placement(recorder: Recorder, bytes_of: Mapping[int, int], sizes: Mapping[int, int]) -> None:
    """Judge that the largest disk of a node holds more PGs than its two smallest. sizes: of that node's OSDs."""
    ranked = sorted(sizes, key=lambda osd: sizes[osd])
    share = bytes_of[ranked[-1]] / max(1, sum(bytes_of[osd] for osd in ranked[:2]))
    counts = ", ".join(f"{sizes[osd] / GIB:.0f} GiB {bytes_of[osd]} PGs" for osd in ranked)
    bound = Bound(f"CRUSH places by weight: {counts}", least=1.0, basis=Basis.CORRECTNESS)
    recorder.figure("PGs of the largest disk over those of the two smallest beside it", share, "", bound)


def scenario(of: str, *, unequal: bool) -> Scenario:
    needs = frozenset({Capability.CPU_LIMIT}) if unequal else frozenset[Capability]()
    cores = f", with {', '.join(f'{count:g}' for count in CORES)} cores" if unequal else ""
    return Scenario(
        name=f"interop.unlike[{of}]",
        goal="Unequal machines of both architectures hold data by the size of their disks, and take load without an "
        "error.",
        method=f"Raises four OSDs of different sizes on one {host_arch()} node, and one on each of two "
        f"{host_arch().other} nodes{cores}; compares weights and placement with the disks; writes by fio from clients "
        f"of both for {LOAD_S:.0f} s and reads everything back.",
        run=run,
        check="figures",
        tier=Tier.FULL,
        topology=UnlikeTopology(unequal=unequal),
        needs=needs,
        sees=("weight of osd.* over its disk", "PGs of the largest disk.*"),
    )


SCENARIOS = (scenario("disks", unequal=False), scenario("cores", unequal=True))
