"""Sets up the kernel's NVMe target over an RBD image of its machine. It is a separate program, because guests run it.

`answer` takes a JSON request and returns a JSON answer, see `Programs`. It imports nothing from the lab. Attributes as
in the kernel's drivers/nvme/target/configfs.c and Documentation/ABI/testing/sysfs-bus-rbd.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TARGET = Path("/sys/kernel/config/nvmet")
RBD = Path("/sys/bus/rbd")
PORT = NAMESPACE = GROUP = "1"
"""Names of the only port and ANA group, and of the first namespace. Every port has group 1."""

Wanted = dict[str, Any]


def serve(target: Path, wanted: Wanted) -> None:
    """Export an image, which is already mapped, as the first namespace of a subsystem."""
    subsystem = made(target / "subsystems" / wanted["nqn"])
    first, last = wanted["controllers"]
    put(subsystem, attr_allow_any_host="0", attr_serial=wanted["serial"])
    put(subsystem, attr_cntlid_min=str(first), attr_cntlid_max=str(last))
    show(target, wanted, wanted)
    for host in wanted["hosts"]:
        link(made(subsystem / "allowed_hosts") / host, made(target / "hosts" / host))
        if key := wanted["secrets"].get(host):
            put(target / "hosts" / host, dhchap_key=key)
    port = made(target / "ports" / PORT)
    put(port, addr_adrfam="ipv4", addr_trtype="tcp", addr_traddr=wanted["address"], addr_trsvcid=str(wanted["port"]))
    if wanted["tls"]:
        put(port, addr_tsas="tls1.3", addr_treq="required")
    turn(target, wanted)
    link(made(port / "subsystems") / wanted["nqn"], subsystem)


def folder_of(target: Path, wanted: Wanted, namespace: Wanted) -> Path:
    """The folder of one namespace of the subsystem."""
    return target / "subsystems" / str(wanted["nqn"]) / "namespaces" / str(namespace["number"])


def show(target: Path, wanted: Wanted, namespace: Wanted) -> None:
    """Export a mapped image as a namespace."""
    folder = made(folder_of(target, wanted, namespace))
    put(folder, device_path=namespace["device"], device_uuid=namespace["uuid"], device_nguid=namespace["nguid"])
    put(folder, ana_grpid=GROUP, enable="1")


def hide(folder: Path) -> str:
    """Remove a namespace after its requests in flight have ended; returns its device."""
    device = text(folder / "device_path")
    put(folder, enable="0")
    folder.rmdir()
    return device


def turn(target: Path, wanted: Wanted) -> None:
    """Set the ANA state that initiators see for this gateway's path to the namespace."""
    put(made(target / "ports" / PORT / "ana_groups" / GROUP), ana_state=wanted["state"])


def told(target: Path, wanted: Wanted) -> Wanted:
    """What the kernel exports, as it reports it."""
    subsystem = target / "subsystems" / wanted["nqn"]
    namespace = subsystem / "namespaces" / NAMESPACE
    return {
        "nqn": subsystem.name,
        "serial": text(subsystem / "attr_serial"),
        "uuid": text(namespace / "device_uuid"),
        "nguid": text(namespace / "device_nguid").replace("-", ""),
        "group": text(namespace / "ana_grpid"),
        "hosts": sorted(os.listdir(subsystem / "allowed_hosts")),  # noqa: PTH208
        "controllers": [int(text(subsystem / f"attr_cntlid_{end}")) for end in ("min", "max")],
        "state": text(target / "ports" / PORT / "ana_groups" / GROUP / "ana_state"),
    }


def withdraw(target: Path, bus: Path, wanted: Wanted) -> None:
    """Remove everything that exists, and unmap what was exported. Requests in flight end first."""
    port, subsystem = target / "ports" / PORT, target / "subsystems" / wanted["nqn"]
    for path in (port / "subsystems" / wanted["nqn"], *listed(subsystem / "allowed_hosts")):
        if path.is_symlink():
            path.unlink()
    for folder in listed(subsystem / "namespaces"):
        unmap(bus, hide(folder))
    for path in (subsystem, port, *listed(target / "hosts")):
        if path.exists():
            path.rmdir()


def map_image(bus: Path, wanted: Wanted, namespace: Wanted) -> Wanted:
    """Map an image without the `rbd` program, which takes most of a minute on an emulated machine: {device, client}.

    client: the address of the kernel's Ceph client that writes through the device.
    """
    before = {path.name for path in listed(bus / "devices")}
    options = f"name={wanted['user']},secret={secret(Path(wanted['keyring']))},ms_mode=prefer-crc"
    image = f"{wanted['monitors']} {options} {namespace['pool']} {namespace['image']} -"
    put(bus, add_single_major=image)
    (device,) = (path for path in listed(bus / "devices") if path.name not in before)
    return {"device": f"/dev/rbd{device.name}", "client": text(device / "client_addr")}


def unmap(bus: Path, device: str) -> None:
    """Unmap a device if it exists, even if Ceph refuses its client."""
    for path in listed(bus / "devices"):
        if device == f"/dev/rbd{path.name}":
            put(bus, remove_single_major=f"{path.name} force")


def secret(keyring: Path) -> str:
    """The key of a keyring file with one entity."""
    parsed = configparser.ConfigParser()
    parsed.read_string("\n".join(line.strip() for line in keyring.read_text().splitlines()))
    (section,) = parsed.sections()
    return parsed[section]["key"]


def made(folder: Path) -> Path:
    """The folder, created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def put(folder: Path, **attributes: str) -> None:
    """Write attributes in this order: the kernel refuses some orders."""
    for name, value in attributes.items():
        (folder / name).write_text(value)


def link(path: Path, target: Path) -> None:
    """Make a link if it does not exist."""
    if not path.is_symlink():
        path.symlink_to(target)


def listed(folder: Path) -> list[Path]:
    """The entries of a folder; none if it does not exist."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def text(path: Path) -> str:
    """The value of an attribute."""
    return path.read_text().strip()


def begin(target: Path, bus: Path, wanted: Wanted, _namespaces: Sequence[Wanted]) -> Wanted:
    """Map the first image and export it; if it cannot be exported it is unmapped again."""
    mapped = map_image(bus, wanted, wanted)
    try:
        serve(target, {**wanted, **mapped})
    except OSError:
        unmap(bus, mapped["device"])
        raise
    return mapped


def add(target: Path, bus: Path, wanted: Wanted, namespaces: Sequence[Wanted]) -> Wanted:
    """Map and export more images: {clients}. An image that cannot be exported is unmapped again."""
    clients = []
    for namespace in namespaces:
        mapped = map_image(bus, wanted, namespace)
        try:
            show(target, wanted, {**namespace, **mapped})
        except OSError:
            unmap(bus, mapped["device"])
            raise
        clients.append(mapped["client"])
    return {"clients": clients}


def grow(target: Path, _bus: Path, wanted: Wanted, namespaces: Sequence[Wanted]) -> Wanted:
    """Take the new size of the image."""
    (namespace,) = namespaces
    put(folder_of(target, wanted, namespace), revalidate_size="1")
    return {}


def remove(target: Path, bus: Path, wanted: Wanted, namespaces: Sequence[Wanted]) -> Wanted:
    """Remove one namespace and unmap its image."""
    (namespace,) = namespaces
    unmap(bus, hide(folder_of(target, wanted, namespace)))
    return {}


def change(target: Path, _bus: Path, wanted: Wanted, _namespaces: Sequence[Wanted]) -> Wanted:
    """Set the ANA state."""
    turn(target, wanted)
    return {}


def tell(target: Path, _bus: Path, wanted: Wanted, _namespaces: Sequence[Wanted]) -> Wanted:
    """Report what is exported."""
    return told(target, wanted)


def end(target: Path, bus: Path, wanted: Wanted, _namespaces: Sequence[Wanted]) -> Wanted:
    """Remove everything that this gateway exported. Other devices stay."""
    withdraw(target, bus, wanted)
    return {}


DO = {"serve": begin, "turn": change, "told": tell, "add": add, "grow": grow, "remove": remove, "withdraw": end}


def answer(request: Wanted, target: Path = TARGET, bus: Path = RBD) -> Wanted:
    """Carry out a request. wanted: the whole gateway; namespaces: those to add, or the one to grow or remove."""
    return DO[request["do"]](target, bus, request["wanted"], request.get("namespaces", []))
