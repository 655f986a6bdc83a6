"""The spec of a cluster: nodes, disks, daemons. Frozen values; equal specs are interchangeable."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from string import ascii_lowercase

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.written import Flag, OptionText, Real, Size, Whole

GIB = 1 << 30
MIB = 1 << 20
DEFAULT_RELEASE = "reef"
KNOWN_RELEASES = (
    *("argonaut", "bobtail", "cuttlefish", "dumpling", "emperor", "firefly", "giant", "hammer", "infernalis", "jewel"),
    *("kraken", "luminous", "mimic", "nautilus", "octopus", "pacific", "quincy", "reef", "squid", "tentacle"),
)
"""Every release so far, by number from 1. Source: https://docs.ceph.com/en/latest/releases/."""
UNKNOWN_RELEASE = "unknown"  # of a pulled image, until its own programs report one: its reference proves nothing
_FIRST_WITH_A_POOL = 15
DEFAULT_DISK_BYTES = 10 * GIB
MIN_DISK_BYTES = GIB
"""The smallest disk that `up` gives an OSD. Tests of machines without Ceph use smaller ones."""
MAX_DISK_BYTES = (16 << 40) - (4 << 10)  # of a disk that is a file: ext4 has none larger; real disks may be
MIN_LIMITS = {"cores": 0.01, "memory_bytes": 6 << 20}  # below these Docker starts no container
MIN_DB_BYTES = 3 * GIB
"""The smallest separate db. RocksDB's logs alone may take 1 GiB (max_total_wal_size in bluestore_rocksdb_options). If
they do not fit, BlueFS spills over to the slow device, and the cluster warns of it (BLUEFS_SPILLOVER)."""
HEALTHY_S = 120.0
"""Time limit for a cluster to become healthy, before patience."""
MAX_MONS = 5
MAX_NODE_NAME = 20
"""A daemon's socket is below its node's directory, and a socket's path has at most 107 bytes."""
PAGE_BYTES = {Arch.X86_64: (4 << 10,), Arch.AARCH64: (4 << 10, 16 << 10, 64 << 10)}
"""Page sizes that an architecture's processors support. The kernel chooses one of them."""
MAX_DISK_NAME = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
_OPTION = re.compile(r"[a-z][a-z0-9_/]*")
_SERVICE = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})?")


class Misfit(SpecError):
    """An error in a spec. key: of the wrong value; in_file: the hint in a file, if it differs; others: more errors."""

    def __init__(self, what: str, detail: str, hint: str, *, key: str, in_file: str = "") -> None:
        super().__init__(what, detail, hint)
        self.key = key
        self.in_file = in_file or hint
        self.others: tuple[Misfit, ...] = ()


class DiskClass(StrEnum):
    """Device class, spelled as CRUSH spells it."""

    HDD = "hdd"
    SSD = "ssd"
    NVME = "nvme"


class Capability(StrEnum):
    """What a provider's hosts can do. Scenarios name what they need."""

    FOREIGN_ARCH = "foreign-arch"
    PARTITION = "partition"
    CPU_LIMIT = "cpu-limit"
    MEMORY_LIMIT = "memory-limit"
    DISK_LIMIT = "disk-limit"
    OWN_NETWORK = "own-network"
    OWN_KERNEL = "own-kernel"
    POWER_CUT = "power-cut"
    MOVE_DISK = "move-disk"
    TAKE_OVER = "take-over"
    SECOND_IMAGE = "second-image"
    PULLED_IMAGE = "pulled-image"
    HARDWARE = "hardware"
    CUT_LINKS = "cut-links"
    SLOW_NETWORK = "slow-network"
    SLOW_DISK = "slow-disk"
    SQUEEZE_MEMORY = "squeeze-memory"
    MEMORY_DISK = "memory-disk"
    DISKS_IN_HOME = "disks-in-home"  # disks are files below the home
    PAGE_SIZE = "page-size"
    THIS_MACHINE = "this-machine"  # processes of native nodes run on this machine's kernel, like its own
    FABRICS = "fabrics"  # kernels of its nodes have NVMe over TCP, target and initiator
    SPDK_GATEWAYS = "spdk-gateways"  # ceph-nvmeof gateways may exist there already
    SHARED_NETWORK = "shared-network"  # nodes of different runs reach each other


@dataclass(frozen=True)
class DiskLimits:
    """Limits imposed on a disk; None is no limit. Operations per second, and bytes per second."""

    read_iops: Whole | None = None
    write_iops: Whole | None = None
    read_bytes_s: Size | None = None
    write_bytes_s: Size | None = None

    def any(self) -> bool:
        return self != DiskLimits()


@dataclass(frozen=True)
class Disk:
    """A disk by name. It can be moved from one node to another. in_memory: it is kept in memory, for measuring."""

    name: str
    size_bytes: Size = DEFAULT_DISK_BYTES
    device_class: DiskClass = DiskClass.SSD
    limits: DiskLimits = DiskLimits()
    in_memory: Flag = False


@dataclass(frozen=True)
class Osd:
    """An OSD by the names of its disks: block device and, if separate, db and wal."""

    block: str
    db: str | None = None
    wal: str | None = None

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """(BlueStore's name for its link to the disk, name of the disk) for each of its disks."""
        every = (("block", self.block), ("block.db", self.db), ("block.wal", self.wal))
        return tuple((part, disk) for part, disk in every if disk)

    @property
    def disks(self) -> tuple[str, ...]:
        return tuple(disk for _, disk in self.parts)


ONLOOKERS = frozenset({"exporter", "prometheus"})
"""Services that collect metrics of a cluster and are not part of it. Clients run them too."""


@dataclass(frozen=True)
class Node:
    """One machine of the lab. cores, memory_bytes: what it may use (None: all).

    page_bytes: page size of its kernel (None: the provider's choice). fabrics: its kernel has NVMe over TCP. services:
    daemons other than monitors, managers and OSDs, e.g. `rgw`, or `rgw:2` for `rgw` and `rgw.b`; see lab/services/.
    """

    name: str
    arch: Arch
    disks: tuple[Disk, ...] = ()
    osds: tuple[Osd, ...] = ()
    mon: Flag = False
    mgr: Flag = False
    cores: Real | None = None
    memory_bytes: Size | None = None
    page_bytes: Size | None = None
    fabrics: Flag = False
    services: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "services", spelt_out(self.services))

    @property
    def has_daemons(self) -> bool:
        """Whether it is part of the cluster. A node with ONLOOKERS only is a client."""
        return bool(self.osds or self.mon or self.mgr or set(self.services) - ONLOOKERS)


@dataclass(frozen=True)
class ClusterSpec:
    """A whole cluster. options: ceph.conf settings in addition to the lab's own; image: reference of a pulled image."""

    nodes: tuple[Node, ...]
    release: str = DEFAULT_RELEASE
    image: str | None = None
    options: Mapping[str, OptionText] = field(default_factory=dict)

    def __post_init__(self) -> None:
        misfits = list(_misfits(self))
        if misfits:
            misfits[0].others = tuple(misfits[1:])
            raise misfits[0]

    @property
    def archs(self) -> tuple[Arch, ...]:
        """Architectures in order of first appearance."""
        return tuple(dict.fromkeys(node.arch for node in self.nodes))

    @property
    def mons(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.mon)

    @property
    def osd_count(self) -> int:
        return sum(len(node.osds) for node in self.nodes)

    def needs(self) -> frozenset[Capability]:
        """Capabilities that the spec needs. Foreign architectures are not counted here."""
        disks = [disk for node in self.nodes for disk in node.disks]
        needed = {
            Capability.CPU_LIMIT: any(node.cores is not None for node in self.nodes),
            Capability.MEMORY_LIMIT: any(node.memory_bytes is not None for node in self.nodes),
            Capability.PAGE_SIZE: bool(self.paged()),
            Capability.FABRICS: any(node.fabrics for node in self.nodes),
            Capability.DISK_LIMIT: any(disk.limits.any() for disk in disks),
            Capability.MEMORY_DISK: any(disk.in_memory for disk in disks),
            Capability.PULLED_IMAGE: self.image is not None,
        }
        return frozenset(capability for capability, wanted in needed.items() if wanted)

    def paged(self) -> tuple[Node, ...]:
        """Nodes that ask for a page size and whose architecture has several."""
        return tuple(node for node in self.nodes if node.page_bytes and len(PAGE_BYTES[node.arch]) > 1)


def spelt_out(services: Sequence[str]) -> tuple[str, ...]:
    """Turn `rgw:2` into `rgw`, `rgw.b`; leave others as they are. Misfit for a count that is not 1 to 26."""
    named: list[str] = []
    for text in services:
        kind, colon, count = text.partition(":")
        if colon and not (count.isdecimal() and 1 <= int(count) <= len(ascii_lowercase)):
            raise Misfit(
                f"{text!r} is not a valid count of daemons",
                f"got {count!r}, wanted: 1 to {len(ascii_lowercase)}",
                "write KIND:2 for two daemons of a kind",
                key="nodes.*.services",
            )
        letters = ascii_lowercase[: int(count)] if colon else ""
        named += [kind if letter == "a" else f"{kind}.{letter}" for letter in letters] if colon else [text]
    return tuple(named)


def refuse_image(release: str | None, image: str | None) -> None:
    """SpecError if `image` is not a reference, or if both are given: a pulled image has its own release."""
    if image is not None and not _REFERENCE.fullmatch(image):
        wanted = "wanted: [REGISTRY/]NAME[:TAG] or NAME@DIGEST, of letters, digits and . _ - / : @"
        raise SpecError(f"--image: {image!r} is not the name of an image", wanted, "write e.g. quay.io/ceph/ceph:v18")
    if release is not None and image is not None:
        raise SpecError(
            "--release and --image cannot be given together",
            f"got --release {release} and --image {image}",
            "leave --release out: the pulled image's own programs report the release",
        )


def without_daemons(node: Node) -> Node:
    """The same machine without daemons, as a spare or a client."""
    return replace(node, osds=(), mon=False, mgr=False, services=())


def _misfits(spec: ClusterSpec) -> Iterator[Misfit]:
    """All errors in a spec."""
    if not spec.nodes:
        yield Misfit(
            "a cluster needs at least one node",
            "got 0 nodes",
            "ask for --nodes x86_64:1 or more",
            key="nodes",
            in_file="write a [[nodes]] table for each machine",
        )
        return
    nodes = {f"nodes.{index}": node for index, node in enumerate(spec.nodes)}
    disks = {f"{key}.disks.{index}": disk for key, node in nodes.items() for index, disk in enumerate(node.disks)}
    node_names = {f"{key}.name": node.name for key, node in nodes.items()}
    disk_names = {f"{key}.name": disk.name for key, disk in disks.items()}
    for kind, names, longest in (("node", node_names, MAX_NODE_NAME), ("disk", disk_names, MAX_DISK_NAME)):
        yield from _bad_names(kind, names, longest)
        yield from _duplicates(kind, names)
    for key, disk in disks.items():
        if disk.size_bytes <= 0:
            yield Misfit(
                f"disk {disk.name} has no size",
                f"size_bytes is {disk.size_bytes}",
                "leave it out for 10 GiB",
                key=f"{key}.size_bytes",
            )
        yield from _no_room(f"disk {disk.name}", f"{key}.limits", vars(disk.limits))
    for key, node in nodes.items():
        yield from _no_room(f"node {node.name}", key, {"cores": node.cores, "memory_bytes": node.memory_bytes})
        yield from _bad_pages(key, node)
        services = {f"{key}.services.{index}": name for index, name in enumerate(node.services)}
        yield from _bad_names("service", services, MAX_NODE_NAME, _SERVICE)
        yield from _duplicates("service", services)
    yield from _bad_counts(spec)
    for key, node in nodes.items():
        yield from _bad_osd_disks(key, node)


def _no_room(owner: str, table: str, limits: Mapping[str, float | None]) -> Iterator[Misfit]:
    """Limits that are not above 0, or less than a node needs. limits: key of the table -> figure."""
    for name, figure in limits.items():
        least = MIN_LIMITS.get(name, 0.0)
        if figure is not None and not (0 < figure < math.inf and figure >= least):
            wanted = f"{least} or more" if 0 < figure < math.inf else "a number above 0"
            yield Misfit(
                f"{owner} cannot have {name} = {figure:g}",
                f"got {figure:g}, wanted: {wanted}",
                "leave it out for no limit",
                key=f"{table}.{name}",
            )


def _bad_counts(spec: ClusterSpec) -> Iterator[Misfit]:
    mons = len(spec.mons)
    if not 1 <= mons <= MAX_MONS:
        yield Misfit(
            f"a cluster needs 1 to {MAX_MONS} monitors",
            f"got {mons}",
            "set --mons to 1, 3 or 5",
            key="nodes.*.mon",
            in_file="give 1, 3 or 5 nodes `mon = true`",
        )
    if not any(node.mgr for node in spec.nodes):
        yield Misfit("a cluster needs a manager", "no node has one", "give one node `mgr = true`", key="nodes.*.mgr")
    hosts = sum(1 for node in spec.nodes if node.osds)
    # Ceph treats spaces and dashes in an option's name as underscores.
    options = {re.sub(r"[ -]", "_", key): value for key, value in spec.options.items()}
    for name, value in options.items():
        if not _OPTION.fullmatch(name) or not value.isprintable():
            yield Misfit(
                f"{name!r} is not a setting of ceph.conf with a value in one line",
                f"got {value!r}, wanted: a name of a-z, 0-9, _ and /, and a value without control characters",
                "write for example osd_pool_default_size=2",
                key=f"options.{name}",
            )
    size = options.get("osd_pool_default_size", "")
    if size.isdecimal() and hosts and float(size) > hosts:  # int() refuses thousands of digits
        yield Misfit(
            f"{size} replicas need {size} hosts with OSDs",
            f"osd_pool_default_size is {size}, hosts with OSDs: {hosts}",
            f"set osd_pool_default_size to {hosts} or less, or ask for more nodes",
            key="options.osd_pool_default_size",
        )


def _bad_osd_disks(key: str, node: Node) -> Iterator[Misfit]:
    known = {disk.name for disk in node.disks}
    used = {
        f"{key}.osds.{index}.{part}": name
        for index, osd in enumerate(node.osds)
        for part, name in (("block", osd.block), ("db", osd.db), ("wal", osd.wal))
        if name is not None
    }
    yield from _duplicates(f"OSD disk on {node.name}", used)
    for place, name in used.items():
        if name not in known:
            yield Misfit(
                f"node {node.name}: an OSD names disk {name!r}, which the node does not have",
                f"its disks: {', '.join(sorted(known)) or 'none'}",
                "add the disk to the node or name another",
                key=place,
            )


def _bad_pages(key: str, node: Node) -> Iterator[Misfit]:
    if node.page_bytes is None or node.page_bytes in PAGE_BYTES[node.arch]:
        return
    yield Misfit(
        f"node {node.name}: no {node.arch} kernel has pages of {node.page_bytes} bytes",
        f"got {node.page_bytes}, wanted: {' or '.join(map(str, PAGE_BYTES[node.arch]))}",
        "leave it out for the provider's default",
        key=f"{key}.page_bytes",
    )


def _bad_names(kind: str, names: Mapping[str, str], longest: int, pattern: re.Pattern[str] = _NAME) -> Iterator[Misfit]:
    """Invalid names. They become parts of paths, socket names and container names."""
    for key, name in names.items():
        if len(name) > longest or not pattern.fullmatch(name):
            yield Misfit(
                f"{name!r} is not a valid name for a {kind}",
                f"wanted: 1 to {longest} letters, digits, - and _, starting with a letter or digit",
                "choose another name",
                key=key,
            )


def _duplicates(kind: str, names: Mapping[str, str]) -> Iterator[Misfit]:
    seen = set()
    for key, name in names.items():
        if name in seen:
            yield Misfit(
                f"{kind} {name!r} is there more than once", "wanted: each name once", "choose another name", key=key
            )
        seen.add(name)


def number_of(release: str) -> int | None:
    """14 for nautilus: a release's name begins with the letter of its number. None if it is not a name.

    Source: https://docs.ceph.com/en/latest/releases/, from argonaut on.
    """
    return ord(release[0]) - ord("a") + 1 if release[:1].isascii() and release[:1].islower() else None


def makes_a_pool(release: str) -> bool:
    """Whether managers of a release make their own pool in a new cluster: device_health_metrics, later .mgr."""
    number = number_of(release)
    return number is None or number >= _FIRST_WITH_A_POOL
