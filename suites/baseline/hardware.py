"""Memory modules, PCIe links, firmware and NUMA nodes of real machines, checked against what Ceph needs."""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.tunables.machine import Machine

_MEMORY_DEVICE = 17
_END = 127
_HEADER = struct.Struct("<BBH")


@dataclass(frozen=True)
class Module:
    """A populated slot. speed_mt_s: as configured, 0 if the firmware does not report it."""

    slot: str
    size_mib: int
    speed_mt_s: int


def modules(table: bytes) -> list[Module]:
    """The populated slots in a table like /sys/firmware/dmi/tables/DMI.

    Layout: DMTF DSP0134 (SMBIOS 3.6), 6.1 and 7.18. LabBroken when the table ends within a structure.
    """
    slots = (_module(body, texts) for kind, body, texts in _structures(table) if kind == _MEMORY_DEVICE)
    return [module for module in slots if module is not None]


def _structures(table: bytes) -> Iterator[tuple[int, bytes, list[str]]]:
    """Type, formatted part and strings of each structure."""
    at = 0
    while at + _HEADER.size <= len(table):
        kind, length, _ = _HEADER.unpack_from(table, at)
        end = table.find(b"\0\0", at + length)
        if length < _HEADER.size or end < 0:
            raise LabBroken("the firmware's table ends within a structure", f"at byte {at} of {len(table)}")
        texts = [text.decode(errors="replace") for text in table[at + length : end].split(b"\0")]
        yield kind, table[at : at + length], texts
        if kind == _END:
            return
        at = end + 2


def _module(body: bytes, texts: list[str]) -> Module | None:
    size = struct.unpack_from("<H", body, 0x0C)[0]
    if size == 0:
        return None
    if size == 0x7FFF:
        mib = struct.unpack_from("<I", body, 0x1C)[0] & 0x7FFFFFFF
    else:
        mib = (size & 0x7FFF) // 1024 if size & 0x8000 else size
    configured = struct.unpack_from("<H", body, 0x20)[0] if len(body) >= 0x22 else 0
    number = body[0x10]
    slot = texts[number - 1].strip() if 0 < number <= len(texts) else "?"
    return Module(slot, mib, configured)


DMI = "/sys/firmware/dmi/tables/DMI"
PCI = "/sys/bus/pci/devices"
NUMA = "/sys/devices/system/node"

ONLY_HARDWARE = frozenset({Capability.HARDWARE})

WATCHED = {"0x0108": "NVMe", "0x0200": "Ethernet", "0x0207": "InfiniBand", "0x0107": "SAS"}
"""PCI base and sub-class of the devices that carry Ceph's data (PCI Code and ID Assignment Specification)."""

_UNKNOWN = frozenset({"", "Unknown", "0", "255"})
_LINK_FILES = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width")


def read(host: Host, *patterns: str) -> dict[str, str]:
    """Path -> stripped text of every readable file that a pattern matches."""
    matches = Machine(host.name, host, host.address).read(patterns)
    return {
        path: content.decode(errors="replace").strip()
        for files in matches.values()
        for path, content in files.items()
        if isinstance(content, bytes)
    }


def run_memory(stage: Stage) -> None:
    """Observe that all modules of a node have the same size and speed, and nodes of one architecture equal memory."""
    totals: dict[str, list[int]] = {}
    for host in stage.cluster.hosts.values():
        table = Machine(host.name, host, host.address).read([DMI])[DMI].get(DMI)
        slots = modules(table) if isinstance(table, bytes) else []
        if not slots:
            raise Unavailable(
                f"{host.name} does not list its memory modules", f"{DMI}: {table!r:.60}", "read it as root"
            )
        first = slots[0]
        odd = [slot.slot for slot in slots if (slot.size_mib, slot.speed_mt_s) != (first.size_mib, first.speed_mt_s)]
        stage.recorder.record("memory", host=host.name, modules=[vars(slot) for slot in slots])
        stage.recorder.observe(f"{host.name}: modules that differ from {first.slot}", got=odd, wanted=[], of=len(slots))
        totals.setdefault(host.arch.value, []).append(sum(slot.size_mib for slot in slots))
    for arch, sizes in totals.items():
        stage.recorder.observe(f"MiB of memory of every {arch} node", got=sizes, wanted=sizes[:1] * len(sizes))


@dataclass(frozen=True)
class PcieLink:
    """A device's PCIe link. Speeds are as the kernel prints them, widths in lanes. node: NUMA node, -1 for none."""

    device: str
    kind: str
    speed: str
    top_speed: str
    width: str
    top_width: str
    node: int

    @property
    def state(self) -> str:
        return f"{self.speed} x{self.width}"

    @property
    def top(self) -> str:
        return f"{self.top_speed} x{self.top_width}"


def links_of(files: Mapping[str, str]) -> list[PcieLink]:
    """The links of the watched devices, from the files below /sys/bus/pci/devices.

    A device without a link of its own (inside a chip, or virtual) has no speed and is left out.
    """
    devices: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        file = PurePosixPath(path)
        devices.setdefault(file.parent.name, {})[file.name] = text
    links = []
    for device, have in sorted(devices.items()):
        kind = WATCHED.get(have.get("class", "")[:6])
        speed, top_speed, width, top_width = (have.get(name, "") for name in _LINK_FILES)
        if kind is not None and not {speed, top_speed, width, top_width} & _UNKNOWN:
            node = int(have.get("numa_node", "-1"))
            links.append(PcieLink(device, kind, speed, top_speed, width, top_width, node))
    return links


def links_on(host: Host) -> list[PcieLink]:
    return links_of(read(host, *(f"{PCI}/*/{name}" for name in ("class", "numa_node", *_LINK_FILES))))


def run_links(stage: Stage) -> None:
    """Observe that every NVMe device and network card runs at its top speed with all its lanes."""
    links = [(host, link) for host in stage.cluster.hosts.values() for link in links_on(host)]
    if not links:
        raise Unavailable("no node has a PCIe device with a link state", f"looked for {', '.join(WATCHED.values())}")
    for host, link in links:
        stage.recorder.observe(f"{host.name}: {link.kind} {link.device}", got=link.state, wanted=link.top)
    stage.recorder.witness("links checked", got=len(links), least=1)


FIRMWARE = (
    ("/sys/class/nvme/*", "model", "firmware_rev"),
    ("/sys/class/infiniband/*", "board_id", "fw_ver"),
    ("/sys/block/sd*/device", "model", "rev"),
)
"""(folders of devices, file with the model, file with the version of its firmware). Cards of NVIDIA and others that
can do RDMA are in the second, also those that carry Ethernet; of other cards no file tells the firmware."""


@dataclass(frozen=True)
class Firmware:
    """A device's firmware. model: as the device reports it; of a card, the identifier of its board."""

    device: str
    model: str
    version: str


def firmware_of(files: Mapping[str, str]) -> list[Firmware]:
    """The firmware of each device whose model and version can be read."""
    devices = []
    for folder, model, version in FIRMWARE:
        for path in sorted(files):
            device = PurePosixPath(path).parent
            if device.match(folder) and PurePosixPath(path).name == model:
                devices.append(Firmware(str(device), files[path], files.get(str(device / version), "")))
    return [firmware for firmware in devices if firmware.model and firmware.version]


def unlike_most(devices: Mapping[str, Firmware]) -> dict[str, list[str]]:
    """Model with more than one device -> those with another version than most, with that version."""
    versions: dict[str, dict[str, str]] = {}
    for name, firmware in devices.items():
        versions.setdefault(firmware.model, {})[name] = firmware.version
    return {model: _others(of_model) for model, of_model in versions.items() if len(of_model) > 1}


def _others(versions: Mapping[str, str]) -> list[str]:
    [(most, _)] = Counter(versions.values()).most_common(1)
    return [f"{name}: {version}, not {most}" for name, version in versions.items() if version != most]


def run_firmware(stage: Stage) -> None:
    """Observe that all devices of a model have the same firmware, on all machines together."""
    patterns = [f"{folder}/{file}" for folder, *files in FIRMWARE for file in files]
    devices = {
        f"{host.name} {firmware.device}": firmware
        for host in stage.cluster.hosts.values()
        for firmware in firmware_of(read(host, *patterns))
    }
    odd = unlike_most(devices)
    if not odd:
        raise Unavailable("no two devices of one model show their firmware", f"looked at {', '.join(patterns)}")
    stage.recorder.record("firmware", devices={name: vars(firmware) for name, firmware in devices.items()})
    for model, others in odd.items():
        count = sum(firmware.model == model for firmware in devices.values())
        stage.recorder.observe(f"{model}: devices with another firmware than most", got=others, wanted=[], of=count)


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node. cpus: as the kernel lists them; memory_kib: its total memory."""

    number: int
    cpus: str
    memory_kib: int


def numa_of(files: Mapping[str, str]) -> list[NumaNode]:
    nodes = []
    for path, text in files.items():
        file = PurePosixPath(path)
        if file.name == "cpulist":
            number = int(file.parent.name.removeprefix("node"))
            memory = files.get(str(file.with_name("meminfo")), "")
            total = next((line.split()[3] for line in memory.splitlines() if "MemTotal" in line), "0")
            nodes.append(NumaNode(number, text, int(total)))
    return sorted(nodes, key=lambda node: node.number)


EVEN = 0.1
"""Allowed deviation, as a share of the mean. What firmware and kernel reserve differs by a few percent per node."""


def uneven(nodes: list[NumaNode]) -> list[int]:
    """Numbers of the NUMA nodes with CPUs whose memory is far from the mean of such nodes."""
    busy = [node for node in nodes if node.cpus]
    mean = sum(node.memory_kib for node in busy) / max(1, len(busy))
    return [node.number for node in busy if abs(node.memory_kib - mean) > EVEN * mean]


def run_numa(stage: Stage) -> None:
    """Observe that every NUMA node with CPUs has its share of memory, and record the NUMA node of each card."""
    for host in stage.cluster.hosts.values():
        nodes = numa_of(read(host, f"{NUMA}/node*/cpulist", f"{NUMA}/node*/meminfo"))
        if not nodes:
            raise Unavailable(f"{host.name} does not show its NUMA nodes", f"there is no {NUMA}/node*")
        stage.recorder.record(
            "numa",
            host=host.name,
            nodes=[vars(node) for node in nodes],
            cards=[{"device": link.device, "kind": link.kind, "node": link.node} for link in links_on(host)],
        )
        what = f"{host.name}: NUMA nodes without their share of memory"
        # Where the kernel's files cannot be read, every node would have as much as the others: nothing.
        known = sum(bool(node.cpus and node.memory_kib) for node in nodes)
        stage.recorder.observe(what, got=uneven(nodes), wanted=[], of=known)


SCENARIOS = (
    Scenario(
        name="baseline.memory",
        goal="Memory modules of a node have the same size and speed, and nodes of one architecture have equal memory.",
        method="Reads the firmware's table of memory modules on every node.",
        run=run_memory,
        topology=ANY_ARCH,
        sees=(".*: modules that differ from .*", "MiB of memory of every .* node"),
        needs=ONLY_HARDWARE,
    ),
    Scenario(
        name="baseline.pcie-links",
        goal="NVMe devices and network cards run at their full PCIe speed and width.",
        method="Compares the state of each link with the device's maximum, both as the kernel reports them.",
        run=run_links,
        topology=ANY_ARCH,
        sees=("links checked",),
        check="witnessed",
        needs=ONLY_HARDWARE,
    ),
    Scenario(
        name="baseline.firmware",
        goal="All disks of a model, and all network cards of one, have the same firmware on all machines.",
        method="Reads model and version of the firmware as the kernel reports them, and compares them by model.",
        run=run_firmware,
        topology=ANY_ARCH,
        sees=(".*: devices with another firmware than most",),
        needs=ONLY_HARDWARE,
    ),
    Scenario(
        name="baseline.numa",
        goal="Memory is spread evenly over the NUMA nodes of each machine.",
        method="Reads the NUMA nodes of every machine, and those of its NVMe devices and network cards.",
        run=run_numa,
        topology=ANY_ARCH,
        sees=(".*: NUMA nodes without their share of memory",),
        needs=ONLY_HARDWARE,
    ),
)
