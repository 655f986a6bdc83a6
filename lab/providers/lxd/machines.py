"""Nodes as LXD's virtual machines, with a kernel of their own and block devices as disks."""

import ipaddress
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, NotInstalled, Unavailable
from cephlab.lab.base.home import Home, default_home
from cephlab.lab.base.progress import Progress
from cephlab.lab.images.tools import SystemTools, missing
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.guest import qemu
from cephlab.lab.providers.guest.machine import Parts
from cephlab.lab.providers.host import Facts
from cephlab.lab.providers.lxd import execs, imported, machineimage, names
from cephlab.lab.providers.lxd.kind import ServerCapacity, Supply, disk_limits, place_nodes
from cephlab.lab.providers.lxd.server import RUNNING, InstanceRef, Server
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB, Capability, ClusterSpec, Disk, Node

_DISK_LIMITS = "vm_disk_io_limits"
_BOOT_MODE = "instance_boot_mode"
"""Extensions of LXD's API."""

KVM, VSOCK = Path("/dev/kvm"), Path("/dev/vhost-vsock")
_CORES = 2
_MEMORY_BYTES = 2 * GIB
"""Defaults without a limit in the spec. Memory that a machine does not touch is not taken from its host."""

_AGENT_S = 120.0
_SETTLED_S = 60.0
_NOT_OPERATIONAL = "Instance type not operational"
_DEAD_KVM = "KVM on this machine boots no kernel"
_INSTEAD = "use --lab qemu, which emulates without KVM, or --lab lxd, whose nodes are containers"

# $1: host name; $2: MTU of the interface, or empty; $3, $4: folders of the node and of its disks; the rest are pairs
# of a disk and its serial number. Folders of other disks are removed.
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
class VirtualMachines:
    """LXD virtual machines. They need KVM and vhost-vsock on LXD's machine, and have its architecture."""

    name = "lxd-vm"
    cost = 5
    type = imported.MACHINE
    own_kernel = True
    usual = frozenset(
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

    def capabilities(self, servers: Sequence[Server]) -> frozenset[Capability]:
        able = set(self.usual)
        if all(_DISK_LIMITS in server.info["api_extensions"] for server in servers):
            able.add(Capability.DISK_LIMIT)
        if len({server.arch for server in servers}) > 1:
            able.add(Capability.FOREIGN_ARCH)
        return frozenset(able)

    def obstacle(self, servers: Sequence[Server]) -> Unavailable | None:
        refused = [reason for server in servers if (reason := _refusal(server)) is not None]
        return refused[0] if refused else _missing_tool()

    def refuse(self, servers: Sequence[Server], spec: ClusterSpec) -> None:
        place_nodes(spec.nodes, [ServerCapacity(server.address.url, server.arch, 0) for server in servers])
        for node in spec.nodes:
            for disk in node.disks:
                disk_limits(disk.limits)

    def supply(
        self, servers: Sequence[Server], spec: ClusterSpec, images: Images, home: Home, progress: Progress
    ) -> Supply:
        fingerprints: dict[tuple[str, Arch], str] = {}
        for arch, image in images.items():
            able = [server for server in servers if server.arch is arch]
            if not able:
                continue
            imported.refuse_reference(image)
            machine = machineimage.get(home, image, progress)
            _try_kvm(able, home, machine)
            fingerprints |= {(server.address.url, arch): imported.ensure_machine(server, machine) for server in able}
        return Supply(fingerprints, frozenset())

    def settings(self, server: Server, node: Node, interface: ipaddress.IPv4Interface) -> dict[str, str]:
        """Without an address: the machine derives it from its interface's MAC address."""
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
        """Short, because LXD makes a serial number of at most 20 characters from it."""
        return names.machine_device(disk)

    def device(self, server: Server, disk: Disk) -> dict[str, str]:
        return {"type": "disk", "pool": server.pool, "source": disk.name, **disk_limits(disk.limits)}

    def facts(self, instance: InstanceRef, node: Node) -> Facts:
        """Read inside the machine."""
        result = execs.run(instance, NodeCommand(("bash", "-c", FACTS)), _SETTLED_S).checked(instance.node)
        kernel, cores, memory_kib = result.stdout.split()
        return Facts(node.arch, False, kernel, float(cores), int(memory_kib) << 10)

    def settle(self, instance: InstanceRef, disks: Mapping[str, Disk], *, mtu: int | None) -> None:
        """Wait for LXD's agent. Give the machine its name, and its disks the paths that the lab uses."""
        clock.wait(
            lambda: _agent_answers(instance),
            bool,
            what=f"LXD's agent in {instance.node}",
            timeout_s=_AGENT_S,
            interval_s=0.1,
            timed_out=lambda what, seconds, _last: LabBroken(
                f"{what} did not answer within {seconds:g} s", _log(instance)
            ),
        )
        pairs = [text for disk in disks for text in (disk, names.machine_serial(disk))]
        folders = (str(places.NODE_DIRECTORY), str(places.DISKS_DIRECTORY))
        argv = ("bash", "-c", SETTLE, "bash", instance.instance, str(mtu or ""), *folders, *pairs)
        execs.run(instance, NodeCommand(argv), _SETTLED_S).checked(instance.node)


def _agent_answers(instance: InstanceRef) -> bool:
    """LXD counts a machine's processes as soon as the agent answers."""
    state = instance.server.get(f"inspecting {instance.node}", instance.api.state)
    if state["status_code"] != RUNNING:
        raise LabBroken(f"{instance.node} ended while it was starting", _log(instance))
    return int(state["processes"]) > 0


def _log(instance: InstanceRef) -> str:
    return f"its console: lxc console --project {instance.project} --show-log {instance.instance}"


def _refusal(server: Server) -> Unavailable | None:
    """Why an LXD cannot make virtual machines: its own warnings, and missing devices of this machine."""
    if "qemu" not in str(server.environment.get("driver", "")).split(" | "):
        reasons = [*_absent(server), *_warnings(server)] or ["its server has no driver `qemu`"]
        hint = "provide /dev/kvm, /dev/vhost-vsock (modprobe vhost_vsock), QEMU and lxd-agent, then restart LXD"
        return Unavailable(
            f"the LXD at {server.address.url} cannot make virtual machines",
            "; ".join(reasons),
            f"{hint}; or {_INSTEAD}",
        )
    types = server.environment.get("instance_types")
    if types is not None and VirtualMachines.type not in types:
        detail = f"its instance types: {', '.join(types)}"
        return Unavailable(f"the LXD at {server.address.url} cannot make virtual machines", detail, _INSTEAD)
    return _no_kvm() if _kvm_failed(server) else None


def _absent(server: Server) -> list[str]:
    absent = [f"this machine has no {path}" for path in (KVM, VSOCK) if server.local and not path.exists()]
    return [*absent, *([_DEAD_KVM] if _kvm_failed(server) else [])]


def _kvm_failed(server: Server) -> bool:
    """Whether KVM failed on LXD's machine. Known only for this machine."""
    return server.local and qemu.known_kvm(default_home()) is False


def _warnings(server: Server) -> list[str]:
    """LXD's own warnings about instance types that it cannot make."""
    listed = server.get("listing its warnings", server.api().warnings, params={"recursion": 1})
    return [f"LXD warns: {warning['last_message']}" for warning in listed if warning.get("type") == _NOT_OPERATIONAL]


def _missing_tool() -> Unavailable | None:
    """Names the missing tools that make the disk image, if any."""
    lacking = missing(SystemTools(), machineimage.TOOLS)
    return NotInstalled(lacking, "needed to make the disk image of LXD's machines") if lacking else None


def _try_kvm(servers: Sequence[Server], home: Home, machine: machineimage.MachineImage) -> None:
    """Unavailable when /dev/kvm boots nothing. Tried if QEMU is installed, once per boot of this machine."""
    here = any(server.local for server in servers) and machine.image.arch is host_arch()
    if not here or shutil.which(qemu.program(machine.image.arch)) is None or not os.access(KVM, os.R_OK | os.W_OK):
        return
    if not qemu.kvm_boots(home, Parts(machine.kernel, machine.initramfs, machine.disk)):
        raise _no_kvm()


def _no_kvm() -> Unavailable:
    detail = f"{KVM} exists, but a kernel that was started with it printed nothing"
    return Unavailable(_DEAD_KVM, detail, _INSTEAD)
