"""Making a node's instance: its image, address, limits, and the volumes that are its disks."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.runs import RUN_VARIABLE
from cephlab.lab.providers.addresses import mac_address
from cephlab.lab.providers.lxd import names
from cephlab.lab.providers.lxd.host import LxdHost
from cephlab.lab.providers.lxd.server import Server, lxd_errors, status_of
from cephlab.lab.spec.clusterspec import Disk

_STOP_S = 30
_CONFLICT = 409


def make_project(server: Server, run_id: str, marks: Mapping[str, str]) -> None:
    """Make the project for the run's instances, volumes and profiles. It shares LXD's images and networks."""
    project = names.project_name(run_id)
    try:
        with lxd_errors(f"making project {project}"):
            server.api().projects.post(json={"name": project, "config": {"features.images": "false", **marks}})
    except LabBroken as error:
        if status_of(error) == _CONFLICT or "already exists" in error.detail:
            raise SpecError(
                f"the LXD at {server.address.url} already has a project of a cluster called {run_id!r}",
                error.detail,
                f"choose another --name, or remove it: cephlab prune (or cephlab down {run_id})",
            ) from error
        raise


def make(host: LxdHost, run_id: str, fingerprint: str, prefix: int) -> None:
    """Make the node's volumes and its instance, and start it."""
    volumes = host.server.api(host.project).storage_pools[host.server.pool].volumes.custom
    for disk in host.disks.values():
        with lxd_errors(f"making volume {disk.name}"):
            volumes.post(json=host.kind.volume(disk))
    interface = ipaddress.IPv4Interface(f"{host.address}/{prefix}")
    own = {f"environment.{RUN_VARIABLE}": run_id, "boot.autostart": "false"}
    request: dict[str, Any] = {
        "name": host.instance,
        "type": host.kind.type,
        "architecture": host.server.arch.value,
        "profiles": [],
        "source": {"type": "image", "fingerprint": fingerprint},
        "config": own | host.kind.settings(host.server, host.node, interface),
        "devices": _devices(host, names.bridge_name(run_id)),
    }
    doing = f"making {host.name}"
    with lxd_errors(doing):
        host.server.wait(doing, host.server.api(host.project).instances.post(json=request))
    _act(host, "start")
    _settle(host)


def _settle(host: LxdHost) -> None:
    host.kind.settle(host.instance_ref, host.disks, mtu=host.mtu)


def start(host: LxdHost) -> None:
    """Switch an instance on again."""
    _act(host, "start")
    if host.kind.own_kernel:
        _settle(host)


def stop(host: LxdHost) -> None:
    """Stop an instance at once, like a power cut."""
    _act(host, "stop")


def _act(host: LxdHost, action: str) -> None:
    doing = f"{'starting' if action == 'start' else 'stopping'} {host.name}"
    change = {"action": action, "force": action == "stop", "timeout": _STOP_S}
    with lxd_errors(doing):
        host.server.wait(doing, host.instance_ref.api.state.put(json=change))


def plug(host: LxdHost, disk: Disk) -> None:
    """Give a volume to an instance, running or not."""
    device = host.kind.device(host.server, disk)
    _change_devices(host, {host.kind.device_name(disk.name): device}, f"putting {disk.name} into")


def unplug(host: LxdHost, disk: str) -> None:
    """Take a volume out of an instance; its content stays."""
    _change_devices(host, {host.kind.device_name(disk): None}, f"pulling {disk} out of")


def unwire(host: LxdHost) -> None:
    """Remove an instance's interface for good."""
    _change_devices(host, {"eth0": None}, "removing the interface of")


def _change_devices(host: LxdHost, changes: Mapping[str, dict[str, str] | None], what: str) -> None:
    doing = f"{what} {host.name}"
    instance = host.server.get(doing, host.instance_ref.api)
    devices = {**instance["devices"], **changes}
    instance["devices"] = {name: options for name, options in devices.items() if options is not None}
    with lxd_errors(doing):
        host.server.wait(doing, host.instance_ref.api.put(json=instance))


def resettle(host: LxdHost) -> None:
    """Let a running machine find its disks again. Containers see mounted volumes without help."""
    if host.kind.own_kernel and host.up():
        _settle(host)


def _devices(host: LxdHost, bridge: str) -> dict[str, dict[str, str]]:
    own = {
        "root": {"type": "disk", "path": "/", "pool": host.server.pool},
        "eth0": {"type": "nic", "name": "eth0", "network": bridge, "hwaddr": mac_address(host.address)},
    }
    kind = host.kind
    return own | {kind.device_name(disk.name): kind.device(host.server, disk) for disk in host.disks.values()}
