"""Making a node's instance: its image, address, limits, and the volumes that are its disks."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from lab.errors import LabBroken, SpecError
from lab.providers.addresses import mac_address
from lab.providers.lxd import names
from lab.providers.lxd.host import LxdHost
from lab.providers.lxd.server import Server, lxd_errors, status_of
from lab.runs import RUN_VARIABLE
from lab.spec import Disk, DiskClass, DiskLimits

_STOP_S = 30
_PERIOD_MS = 100
_CONFLICT = 409

# Pairs of file and size; what exists stays as it is.
_MAKE_DISKS = """
while (( $# )); do
  if [[ ! -e $1 ]]; then truncate -s "$2" -- "$1" || exit 1; fi
  shift 2
done
"""


def make_project(server: Server, run_id: str, marks: Mapping[str, str]) -> None:
    """The run's own instances, volumes and profiles; images and networks are the LXD's."""
    order = {"name": names.project_name(run_id), "config": {"features.images": "false", **marks}}
    try:
        with lxd_errors(f"making project {order['name']}"):
            server.api().projects.post(json=order)
    except LabBroken as error:
        if status_of(error) == _CONFLICT or "already exists" in error.detail:
            raise SpecError(
                f"the LXD at {server.address.url} has a project of a cluster called {run_id!r} already",
                error.detail,
                f"choose another --name, or remove it: cephlab prune (or cephlab down {run_id})",
            ) from error
        raise


def make(host: LxdHost, run_id: str, fingerprint: str, prefix: int) -> None:
    """Make the node's volumes and its instance, start it, and give its disks their sizes."""
    for disk in host.disks.values():
        make_volume(host, disk)
    order: dict[str, Any] = {
        "name": host.instance,
        "architecture": host.server.arch.value,
        "profiles": [],
        "source": {"type": "image", "fingerprint": fingerprint},
        "config": _config(host, run_id, prefix),
        "devices": _devices(host, names.bridge_name(run_id)),
    }
    doing = f"making {host.name}"
    with lxd_errors(doing):
        response = host.server.api(host.project).instances.post(json=order)
    host.server.wait(doing, response)
    start(host)
    size_disks(host)


def make_volume(host: LxdHost, disk: Disk) -> None:
    """A volume that will hold the disk's sparse file: block volumes cannot be given to containers."""
    with lxd_errors(f"making volume {disk.name}"):
        volumes = host.server.api(host.project).storage_pools[host.server.pool].volumes.custom
        volumes.post(json={"name": disk.name, "config": {}})


def size_disks(host: LxdHost) -> None:
    """Make the sparse files of the node's disks that do not exist yet."""
    pairs = [text for disk in host.disks.values() for text in (str(names.disk_file(disk.name)), str(disk.size_bytes))]
    host.run(("bash", "-c", f'mkdir -p -- "{names.NODE_DIRECTORY}"\n{_MAKE_DISKS}', "bash", *pairs))


def start(host: LxdHost) -> None:
    """Switch an instance on."""
    _act(host, "start")


def stop(host: LxdHost) -> None:
    """At once, as when the power goes."""
    _act(host, "stop")


def _act(host: LxdHost, action: str) -> None:
    doing = f"the {action} of {host.name}"
    with lxd_errors(doing):
        response = host.where.api.state.put(json={"action": action, "force": action == "stop", "timeout": _STOP_S})
    host.server.wait(doing, response)


def plug(host: LxdHost, disk: Disk) -> None:
    """Give a volume to an instance, whether it runs or not."""
    _change_devices(host, {names.disk_device(disk.name): disk_options(host, disk)}, f"putting {disk.name} into")


def unplug(host: LxdHost, disk: str) -> None:
    """Take a volume out of an instance; its content stays."""
    _change_devices(host, {names.disk_device(disk): None}, f"pulling {disk} out of")


def unwire(host: LxdHost) -> None:
    """Take an instance's interface away, for good."""
    _change_devices(host, {"eth0": None}, "taking the interface of")


def _change_devices(host: LxdHost, changes: Mapping[str, dict[str, str] | None], what: str) -> None:
    doing = f"{what} {host.name}"
    found = host.server.get(doing, host.where.api)
    devices = {**found["devices"], **changes}
    found["devices"] = {name: options for name, options in devices.items() if options is not None}
    with lxd_errors(doing):
        response = host.where.api.put(json=found)
    host.server.wait(doing, response)


def _config(host: LxdHost, run_id: str, prefix: int) -> dict[str, str]:
    """LXD's settings of the instance. The address is set by LXC as it starts: the images have no DHCP client."""
    node = host.node
    interface = ipaddress.IPv4Interface(f"{host.address}/{prefix}")
    found = {
        f"environment.{RUN_VARIABLE}": run_id,
        "raw.lxc": f"lxc.net.0.ipv4.address = {interface} {interface.network.broadcast_address}",
        "boot.autostart": "false",
    }
    if host.emulated and host.arch.qemu_cpu:
        found["environment.QEMU_CPU"] = host.arch.qemu_cpu
    if node.cores is not None:
        found["limits.cpu.allowance"] = f"{max(1, round(node.cores * _PERIOD_MS))}ms/{_PERIOD_MS}ms"
    if node.memory_bytes is not None:
        found["limits.memory"] = str(node.memory_bytes)
        found["limits.memory.swap"] = "false"
    return found


def _devices(host: LxdHost, bridge: str) -> dict[str, dict[str, str]]:
    interface = {"type": "nic", "name": "eth0", "network": bridge, "hwaddr": mac_address(host.address)}
    found = {
        "root": {"type": "disk", "path": "/", "pool": host.server.pool},
        "eth0": interface,
    }
    return found | {names.disk_device(disk.name): disk_options(host, disk) for disk in host.disks.values()}


def disk_options(host: LxdHost, disk: Disk) -> dict[str, str]:
    """The device that a volume is in an instance."""
    found = {
        "type": "disk",
        "pool": host.server.pool,
        "source": disk.name,
        "path": str(names.disk_directory(disk.name)),
    }
    return found | limit_options(disk.limits)


def limit_options(limits: DiskLimits) -> dict[str, str]:
    """Ceilings as LXD spells them; SpecError for both kinds in one direction, of which it knows one."""
    found = {}
    for direction in ("read", "write"):
        iops, rate = getattr(limits, f"{direction}_iops"), getattr(limits, f"{direction}_bytes_s")
        if iops is not None and rate is not None:
            raise SpecError(
                f"LXD limits {direction}s either in number or in bytes",
                f"{direction}_iops is {iops}, {direction}_bytes_s is {rate}",
                "leave one of them out, or use --lab container",
            )
        if iops is not None:
            found[f"limits.{direction}"] = f"{iops}iops"
        elif rate is not None:
            found[f"limits.{direction}"] = f"{rate}B"
    return found


def disk_state(disk: Disk) -> dict[str, Any]:
    """A disk as JSON values."""
    return {
        "size_bytes": disk.size_bytes,
        "device_class": disk.device_class.value,
        "limits": vars(disk.limits),
    }


def disk_from(name: str, state: Mapping[str, Any]) -> Disk:
    """The disk that `disk_state` described."""
    return Disk(name, int(state["size_bytes"]), DiskClass(state["device_class"]), DiskLimits(**state["limits"]))
