"""Nodes as LXD's virtual machines: a kernel of their own, and disks that are block devices."""

from __future__ import annotations

import ipaddress
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, NotInstalled, SpecError, Unavailable
from cephlab.lab.base.home import Home, default_home
from cephlab.lab.base.progress import Progress
from cephlab.lab.images.tools import SystemTools, missing
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.guest import qemu
from cephlab.lab.providers.guest.machine import Parts
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd import execs, imported, limits, machineimage, names, placement
from cephlab.lab.providers.lxd.kind import Supply
from cephlab.lab.providers.lxd.placement import Machine
from cephlab.lab.providers.lxd.server import Server
from cephlab.lab.providers.lxd.where import Where
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB, Capability, ClusterSpec, Disk, Node

_ALWAYS = frozenset(
    {
        Capability.OWN_KERNEL,
        Capability.OWN_NETWORK,
        Capability.POWER_CUT,
        Capability.CPU_LIMIT,
        Capability.MEMORY_LIMIT,
        Capability.MOVE_DISK,
        Capability.TAKE_OVER,
    }
)
_DISK_LIMITS = "vm_disk_io_limits"
_BOOT_MODE = "instance_boot_mode"
"""Extensions of LXD's API."""

KVM, VSOCK = Path("/dev/kvm"), Path("/dev/vhost-vsock")
_CORES = 2
_MEMORY_BYTES = 2 * GIB
"""Where the spec says nothing; what a machine does not touch is not taken from its host."""

_AGENT_S = 120.0
_SETTLED_S = 60.0
_RUNNING = 103
_NOT_OPERATIONAL = "Instance type not operational"
_DEAD_KVM = "KVM on this machine boots no kernel"
_INSTEAD = "use --lab qemu, which emulates where there is no KVM, or --lab lxd, whose nodes are containers"

# $1: host name; $2: MTU of the interface, or nothing; $3, $4: folders of the node and of its disks; the rest are pairs
# of a disk and its serial number. A disk that is none of them is forgotten.
SETTLE = """
found() {
  local file
  for file in /sys/block/*/device/vpd_pg80 /sys/block/*/serial; do
    if [[ -r $file ]] && grep -aqF -- "$1" "$file"; then file=${file#/sys/block/}; echo "${file%%/*}"; return; fi
  done
  return 1
}
echo "$1" >/proc/sys/kernel/hostname && echo "$1" >/etc/hostname || exit 1
if [[ -n $2 ]]; then ip link set eth0 mtu "$2" || exit 1; fi
mkdir -p -- "$3" "$4" || exit 1
folder=$4
shift 4
for old in "$folder"/*; do
  [[ " $* " == *" ${old##*/} "* ]] || rm -rf -- "$old" || exit 1
done
while (( $# )); do
  until device=$(found "$2"); do
    if (( SECONDS > 20 )); then echo "no disk has the serial number $2" >&2; exit 1; fi
    sleep 0.05
  done
  mkdir -p -- "$folder/$1" && ln -sfn -- "/dev/$device" "$folder/$1/FILE" || exit 1
  shift 2
done
""".replace("FILE", places.FILE)

FACTS = "uname -r; nproc; sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo"


@dataclass(frozen=True)
class Machines:
    """They need KVM and vhost-vsock where LXD is, and the architecture of its machine."""

    name = "lxd-vm"
    cost = 5
    type = imported.MACHINE
    own_kernel = True

    def usual(self) -> frozenset[Capability]:
        return _ALWAYS

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]:
        able = set(_ALWAYS)
        if all(_DISK_LIMITS in server.info["api_extensions"] for server in servers):
            able.add(Capability.DISK_LIMIT)
        if len({server.arch for server in servers}) > 1:
            able.add(Capability.FOREIGN_ARCH)
        return frozenset(able)

    def obstacle(self, servers: Sequence[Server]) -> Unavailable | None:
        refused = [reason for server in servers if (reason := _refusal(server)) is not None]
        return refused[0] if refused else _missing_tool()

    def refuse(self, servers: Sequence[Server], spec: ClusterSpec) -> None:
        placement.place(spec.nodes, [Machine(server.address.url, server.arch, 0) for server in servers])
        for node in spec.nodes:
            for disk in node.disks:
                limits.options(disk.limits)

    def supply(
        self, servers: Sequence[Server], spec: ClusterSpec, images: Images, home: Home, progress: Progress
    ) -> Supply:
        fingerprints: dict[tuple[str, Arch], str] = {}
        for arch, image in images.items():
            able = [server for server in servers if server.arch is arch]
            if not able:
                continue
            if image.reference is not None:
                raise SpecError("LXD cannot pull an image by its name", str(image.reference), "leave --image out")
            made = machineimage.get(home, image, progress)
            _try_kvm(able, home, made)
            fingerprints |= {(server.address.url, arch): imported.ensure_machine(server, made) for server in able}
        return Supply(fingerprints, frozenset())

    def settings(self, server: Server, node: Node, interface: ipaddress.IPv4Interface) -> dict[str, str]:
        """The machine finds its address in its interface's hardware address."""
        cores = node.cores or min(_CORES, int(server.resources()["cpu"]["total"]))
        unsigned = {"boot.mode": "uefi-nosecureboot"}
        if _BOOT_MODE not in server.info["api_extensions"]:
            unsigned = {"security.secureboot": "false"}
        return {
            **unsigned,
            "limits.cpu": str(math.ceil(cores)),
            "limits.memory": str(node.memory_bytes or _MEMORY_BYTES),
        }

    def volume(self, disk: Disk) -> dict[str, Any]:
        return {"name": disk.name, "content_type": "block", "config": {"size": f"{disk.size_bytes}B"}}

    def device_name(self, disk: str) -> str:
        """Short and plain, as LXD makes a serial number of at most 20 signs of it."""
        return names.machine_device(disk)

    def device(self, server: Server, disk: Disk) -> dict[str, str]:
        return {"type": "disk", "pool": server.pool, "source": disk.name, **limits.options(disk.limits)}

    def facts(self, where: Where, node: Node) -> Facts:
        """The machine's own, as it says them."""
        said = execs.run(where, Order(("bash", "-c", FACTS)), _SETTLED_S).checked(where.node)
        kernel, cores, memory_kib = said.stdout.split()
        return Facts(node.arch, False, kernel, float(cores), int(memory_kib) << 10)

    def settle(self, where: Where, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """Wait for LXD's agent; give the machine its name, and its disks the paths that the lab knows them by."""
        clock.wait(
            lambda: _agent_answers(where),
            bool,
            what=f"LXD's agent in {where.node}",
            timeout_s=_AGENT_S,
            interval_s=0.1,
            timed_out=lambda what, seconds, _last: LabBroken(
                f"{what} did not answer within {seconds:g} s", _log(where)
            ),
        )
        pairs = [text for disk in disks for text in (disk, names.machine_serial(disk))]
        folders = (str(places.NODE_DIRECTORY), str(places.DISKS_DIRECTORY))
        argv = ("bash", "-c", SETTLE, "bash", where.instance, str(mtu or ""), *folders, *pairs)
        execs.run(where, Order(argv), _SETTLED_S).checked(where.node)


def _agent_answers(where: Where) -> bool:
    """LXD counts the processes of a machine whose agent answers."""
    state = where.server.get(f"looking at {where.node}", where.api.state)
    if state["status_code"] != _RUNNING:
        raise LabBroken(f"{where.node} ended while it was starting", _log(where))
    return int(state["processes"]) > 0


def _log(where: Where) -> str:
    return f"its console: lxc console --project {where.project} --show-log {where.instance}"


def _refusal(server: Server) -> Unavailable | None:
    """Why an LXD makes no virtual machines, in its own words and those of this machine's devices."""
    if "qemu" not in str(server.environment.get("driver", "")).split(" | "):
        reasons = [*_absent(server), *_warnings(server)] or ["its server has no driver `qemu`"]
        hint = "have /dev/kvm and /dev/vhost-vsock (modprobe vhost_vsock), QEMU and lxd-agent, then restart LXD"
        return Unavailable(
            f"the LXD at {server.address.url} makes no virtual machines", "; ".join(reasons), f"{hint}; or {_INSTEAD}"
        )
    types = server.environment.get("instance_types")
    if types is not None and Machines.type not in types:
        detail = f"its instance types: {', '.join(types)}"
        return Unavailable(f"the LXD at {server.address.url} makes no virtual machines", detail, _INSTEAD)
    return _no_kvm() if _kvm_failed(server) else None


def _absent(server: Server) -> list[str]:
    missing = [f"this machine has no {path}" for path in (KVM, VSOCK) if server.local and not path.exists()]
    return [*missing, *([_DEAD_KVM] if _kvm_failed(server) else [])]


def _kvm_failed(server: Server) -> bool:
    """Whether KVM was tried in vain on LXD's machine; it is known of this very one only."""
    return server.local and qemu.known_kvm(default_home()) is False


def _warnings(server: Server) -> list[str]:
    """What LXD has said itself of types that it cannot make."""
    listed = server.get("listing its warnings", server.api().warnings, params={"recursion": 1})
    return [f"LXD says: {warning['last_message']}" for warning in listed if warning.get("type") == _NOT_OPERATIONAL]


def _missing_tool() -> Unavailable | None:
    """A tool that making their disk image takes and that is not here, or None."""
    lacking = missing(SystemTools(), machineimage.TOOLS)
    return NotInstalled(lacking, "their disk image is made with it") if lacking else None


def _try_kvm(servers: Sequence[Server], home: Home, made: machineimage.MachineImage) -> None:
    """A /dev/kvm that boots nothing is none: it is tried where QEMU is at hand, once for each boot of this machine."""
    here = any(server.local for server in servers) and made.image.arch is host_arch()
    if not here or shutil.which(qemu.program(made.image.arch)) is None or not os.access(KVM, os.R_OK | os.W_OK):
        return
    if not qemu.kvm_boots(home, Parts(made.kernel, made.initramfs, made.disk)):
        raise _no_kvm()


def _no_kvm() -> Unavailable:
    detail = f"{KVM} is there, and a kernel that was started with it said nothing"
    return Unavailable(_DEAD_KVM, detail, _INSTEAD)
