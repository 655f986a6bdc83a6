"""Making a run's network, and a node's container: its volumes, address, limits, and the process that keeps it up."""

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker.types

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL, RUN_VARIABLE
from cephlab.lab.providers.addresses import mac_address, on_free_subnet, routed_here
from cephlab.lab.providers.blockdevices import BlockDevices, limited
from cephlab.lab.providers.container import limits, names
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.container.host import ContainerHost
from cephlab.lab.providers.engine import places
from cephlab.lab.spec.clusterspec import Disk

# The shell is process 1 and reaps orphans of daemons. Not every engine has its own init.
_INIT = "while :; do sleep 2147483647 & wait; done"

# Arguments: pairs of file and size. Existing files are left alone.
_MAKE_DISKS = """
while (( $# )); do
  if [[ ! -e $1 ]]; then mkdir -p -- "${1%/*}" && truncate -s "$2" -- "$1" || exit 1; fi
  shift 2
done
"""

# Podman 4.3 answers 500 where Docker answers 409. A taken subnet has another message; then another subnet is tried.
_PODMAN_TAKEN = ("network already exists", "that name is already in use")


@contextmanager
def making(what: str, run_id: str) -> Iterator[None]:
    """Turn the engine's refusal of a taken name into SpecError."""
    try:
        with engine_errors(f"making {what}"):
            yield
    except LabBroken as error:
        if getattr(error.__cause__, "status_code", None) == 409 or any(text in error.detail for text in _PODMAN_TAKEN):
            raise SpecError(
                f"the engine already has {what}",
                error.detail,
                f"choose another --name, or remove it: cephlab down {run_id}",
            ) from error
        raise


def make_volume(engine: Engine, name: str, marks: Mapping[str, str]) -> Path:
    """Make the volume unless it exists; returns its folder on the engine's machine."""
    with engine_errors(f"making volume {name}"):
        return Path(str(engine.client.api.create_volume(name, labels=dict(marks))["Mountpoint"]))


def raise_container(host: ContainerHost, run_id: str, home: Home, image: str, *, beside: str = "") -> None:
    """Create and start the container of a node. beside: a running one whose network it shares."""
    marks = names.labels(run_id, home)
    engine = host.engine
    make_volume(engine, names.node_volume(run_id, host.name), marks)
    disks = make_volume(engine, names.disks_volume(run_id), marks)
    podman_here = engine.kind == "podman" and engine.local
    options = {
        **limits.machine_options(host.node),
        **limits.process_options(podman_as_root=podman_here and not engine.rootless),
        **limits.system_call_options(podman_here=podman_here),
        **_disk_options(host, disks),
    }
    network = {"network_mode": f"container:{beside}"} if beside else _network(host, run_id)
    _start(host, image, {**marks, names.NODE_LABEL: host.name}, {**options, **network})


def _network(host: ContainerHost, run_id: str) -> dict[str, Any]:
    """Options for the node's own address on the run's network."""
    endpoint = docker.types.EndpointConfig(
        host.engine.client.api.api_version,
        ipv4_address=host.address,
        aliases=[host.name],
        mac_address=mac_address(host.address),
    )
    name = names.network_name(run_id)
    return {"hostname": host.name, "network": name, "networking_config": {name: endpoint}}


def _start(host: ContainerHost, image: str, marks: Mapping[str, str], options: Mapping[str, Any]) -> None:
    # testcontainers reads its settings at the first import, and takes a moment to import.
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    # Its reaper would have to be pulled as an image; our labels find orphans instead.
    testcontainers_config.ryuk_disabled = True
    run_id = marks[LABEL]
    with making(f"container {host.container}", run_id):
        container = (
            DockerContainer(image, docker_client_kw={"environment": dict(host.engine.settings)})
            .with_name(host.container)
            .with_command(["-c", _INIT])
            .with_env(RUN_VARIABLE, run_id)
            .with_envs(**({"QEMU_CPU": host.arch.qemu_cpu} if host.emulated and host.arch.qemu_cpu else {}))
            .with_volume_mapping(names.node_volume(run_id, host.name), str(places.NODE_DIRECTORY), "rw")
            .with_volume_mapping(names.disks_volume(run_id), str(places.DISKS_DIRECTORY), "rw")
            .with_kwargs(
                entrypoint=["bash"],
                labels=dict(marks),
                **options,
            )
        )
        try:
            container.start()
        finally:
            container.get_docker_client().client.close()


def make_disks(host: ContainerHost) -> None:
    """Make the missing sparse files of the node's disks."""
    pairs = [text for disk in host.disks.values() for text in (str(places.disk_file(disk.name)), str(disk.size_bytes))]
    if pairs:
        host.run(("bash", "-c", _MAKE_DISKS, "bash", *pairs))


def _disk_options(host: ContainerHost, disks_folder: Path) -> dict[str, Any]:
    """Options for the node's disk limits. Makes the loop devices that they need."""
    bounded = limited(host.disks.values())
    if not bounded:
        return {}
    if not host.devices and not limits.wants_loops(bounded):
        below = BlockDevices().below(host.engine.root_directory)
        return limits.disk_options({below: bounded[0].limits})
    ceilings = {_loop(host, disk, disks_folder): disk.limits for disk in bounded}
    mapped = [f"{device}:{names.disk_device(name)}:rwm" for name, device in host.devices.items()]
    return {**limits.disk_options(ceilings), "devices": mapped}


def _loop(host: ContainerHost, disk: Disk, disks_folder: Path) -> Path:
    if disk.name not in host.devices:
        file = disks_folder / places.disk_file(disk.name).relative_to(places.DISKS_DIRECTORY)
        host.devices[disk.name] = limits.attach_loop(file, disk.size_bytes)
    return host.devices[disk.name]


def make_network(engine: Engine, run_id: str, home: Home) -> str:
    """Make the run's bridge network; returns its subnet. LabBroken when the pool has no free subnet."""

    def make(subnet: ipaddress.IPv4Network) -> None:
        layout = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=str(subnet))])
        with making(f"network {names.network_name(run_id)}", run_id):
            engine.client.api.create_network(
                names.network_name(run_id),
                driver="bridge",
                ipam=layout,
                check_duplicate=True,
                labels=names.labels(run_id, home),
            )

    return str(on_free_subnet(run_id, _taken(engine), make))


def _taken(engine: Engine) -> list[str]:
    """Subnets of the engine's networks and of this machine's routes."""
    with engine_errors("listing its networks"):
        listed = engine.client.api.networks()
    used = [
        str(pool["Subnet"])
        for network in listed
        for pool in (network.get("IPAM") or {}).get("Config") or []
        if pool.get("Subnet")
    ]
    return used + (routed_here() if engine.local else [])
