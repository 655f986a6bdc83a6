"""Lays out plain clusters: a number of nodes of each architecture, with daemons spread over them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.arch import Arch, parse_arch
from cephlab.lab.spec.clusterspec import (
    DEFAULT_DISK_BYTES,
    DEFAULT_RELEASE,
    MIN_DB_BYTES,
    ClusterSpec,
    Disk,
    DiskClass,
    Node,
    Osd,
)

MOST_NODES = 1000
"""Of one architecture. More is a typing error: one machine has no memory for them."""


def parse_nodes(text: str, source: str = "--nodes") -> tuple[tuple[Arch, int], ...]:
    """Read `x86_64:2,aarch64:1`; SpecError names the source and the wrong part."""
    groups = []
    for part in text.split(","):
        arch, _, count = part.partition(":")
        try:
            number = int(count) if count else 1
        except ValueError:
            raise SpecError(
                f"{source}: {part!r} is not ARCH:COUNT", f"got {count!r} as a count", "write x86_64:2,aarch64:1"
            ) from None
        if not arch:
            raise SpecError(f"{source}: {part!r} is not ARCH:COUNT", "got no architecture", "write x86_64:2,aarch64:1")
        if not 1 <= number <= MOST_NODES:
            raise SpecError(
                f"{source}: {part!r} asks for {how_many(number, 'node')}",
                "wanted: a count of 1 or more" if number < 1 else f"wanted: at most {MOST_NODES}",
                "leave the part out" if number < 1 else "ask for fewer",
            )
        groups.append((parse_arch(arch), number))
    return tuple(groups)


@dataclass(frozen=True)
class Daemons:
    """The daemons of a plain cluster. separate_db: every OSD gets a second disk for its RocksDB."""

    mons: int = 1
    mgrs: int = 1
    osds_per_node: int = 1
    disk_bytes: int = DEFAULT_DISK_BYTES
    separate_db: bool = False


@dataclass(frozen=True)
class CephSetup:
    """The Ceph of a cluster, and settings in addition to the lab's own."""

    release: str = DEFAULT_RELEASE
    image: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def cluster(self, nodes: Sequence[Node]) -> ClusterSpec:
        """A cluster of these nodes with this Ceph."""
        return ClusterSpec(tuple(nodes), self.release, self.image, dict(self.options))


ONE_EACH, DEFAULT_SETUP = Daemons(), CephSetup()


def build_spec(
    groups: Sequence[tuple[Arch, int]],
    daemons: Daemons = ONE_EACH,
    setup: CephSetup = DEFAULT_SETUP,
    *,
    bare: Sequence[Arch] = (),
) -> ClusterSpec:
    """Lay out a cluster: nodes n0.. in the given order, monitors spread over architectures, managers on the first.

    bare: architectures of machines without daemons, c0... Clients on these machines outlive every node.
    """
    archs = [arch for arch, count in groups for _ in range(count)]
    mon_nodes = set(_spread(archs, daemons.mons))
    nodes = [
        replace(_node(index, arch, daemons), mon=index in mon_nodes, mgr=index < daemons.mgrs)
        for index, arch in enumerate(archs)
    ]
    return setup.cluster([*nodes, *(Node(f"c{index}", arch) for index, arch in enumerate(bare))])


def with_gateways(spec: ClusterSpec, gateways: int, *, balancer: bool) -> ClusterSpec:
    """The spec with this number of gateways, alternating between architectures, and HAProxy on the first node.

    With more gateways than nodes with OSDs, some nodes get several.
    """
    able = [index for index, node in enumerate(spec.nodes) if node.osds]
    turns = [able[turn] for turn in _spread([spec.nodes[index].arch for index in able], min(gateways, len(able)))]
    counts = Counter(turns[number % len(turns)] for number in range(gateways)) if turns else Counter[int]()
    services = {index: (f"rgw:{count}",) for index, count in counts.items()}
    if balancer:
        services[0] = (*services.get(0, ()), "haproxy")
    nodes = [replace(node, services=(*node.services, *services.get(i, ()))) for i, node in enumerate(spec.nodes)]
    return replace(spec, nodes=tuple(nodes))


def with_metrics(spec: ClusterSpec) -> ClusterSpec:
    """The spec with an exporter on every node, and one Prometheus; unchanged if it has a Prometheus already.

    Prometheus is on the first node without daemons, so that it outlives nodes that fail, else on the first node.
    """
    if not spec.nodes or any("prometheus" in node.services for node in spec.nodes):
        return spec
    bare = (node.name for node in spec.nodes if not node.has_daemons)
    chosen = next(bare, spec.nodes[0].name)
    nodes = [
        replace(node, services=(*node.services, "exporter", *(["prometheus"] if node.name == chosen else [])))
        for node in spec.nodes
    ]
    return replace(spec, nodes=tuple(nodes))


def _node(index: int, arch: Arch, daemons: Daemons) -> Node:
    name = f"n{index}"
    disks: list[Disk] = []
    osds: list[Osd] = []
    for number in range(daemons.osds_per_node):
        disks.append(Disk(f"{name}-block{number}", daemons.disk_bytes))
        if daemons.separate_db:
            disks.append(Disk(f"{name}-db{number}", max(MIN_DB_BYTES, daemons.disk_bytes // 10), DiskClass.NVME))
        osds.append(Osd(f"{name}-block{number}", db=f"{name}-db{number}" if daemons.separate_db else None))
    return Node(name, arch, tuple(disks), tuple(osds))


def _spread(archs: Sequence[Arch], mons: int) -> list[int]:
    """Indices of the nodes that get a monitor. Architectures take turns, so that a quorum is mixed if possible."""
    queues = {arch: [i for i, a in enumerate(archs) if a is arch] for arch in dict.fromkeys(archs)}
    chosen: list[int] = []
    while len(chosen) < mons and any(queues.values()):
        for queue in queues.values():
            if queue and len(chosen) < mons:
                chosen.append(queue.pop(0))
    if len(chosen) < mons:
        raise SpecError(
            f"{mons} monitors do not fit on {how_many(len(archs), 'node')}",
            "every monitor needs its own node",
            f"ask for at most {how_many(len(archs), 'monitor')} or for more nodes",
        )
    return chosen
