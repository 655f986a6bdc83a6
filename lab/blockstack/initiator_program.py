"""Connects the kernel's NVMe-over-TCP initiator and reports its state. It is a separate program: guests run it.

`answer` takes a JSON request and returns a JSON answer, see `Programs`. It imports nothing from the lab. Options as in
the kernel's drivers/nvme/host/fabrics.c.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from pathlib import Path
from typing import Any

FABRICS = Path("/dev/nvme-fabrics")
CLASS = Path("/sys/class")
SECTOR_BYTES = 512
"""The unit of sizes in sysfs, whatever sectors the device itself has."""
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
"""The subsystem of every target that lists its other subsystems."""
GET_LOG_PAGE, DISCOVERY_PAGE = 0x02, 0x70
ENTRY_BYTES, ENTRIES = 1024, 8
ADMIN_COMMAND = 0xC0484E41
"""NVME_IOCTL_ADMIN_CMD of linux/nvme_ioctl.h."""
COMMAND = struct.Struct("<B23xQ4xII28x")
"""struct nvme_passthru_cmd: opcode, address and length of the data, cdw10."""


def connect(fabrics: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Connect a controller: {refused: text of the error} or {refused: ""}.

    options: name -> value; true for an option without a value.
    """
    device = os.open(fabrics, os.O_RDWR)
    try:
        os.write(device, words_of(options).encode())
    except OSError as error:
        return {"refused": f"{error.strerror}"}
    finally:
        os.close(device)
    return {"refused": ""}


def discover(fabrics: Path, classes: Path, options: dict[str, Any]) -> dict[str, Any]:
    """{refused, told}. told: what the discovery service of a gateway returns to this host, [[NQN, address], ...]."""
    device = os.open(fabrics, os.O_RDWR)
    try:
        os.write(device, words_of({**options, "nqn": DISCOVERY}).encode())
        fields = dict(part.partition("=")[::2] for part in os.read(device, 256).decode().strip().split(","))
    except OSError as error:
        return {"refused": f"{error.strerror}", "told": []}
    finally:
        os.close(device)
    name = f"nvme{fields['instance']}"
    try:
        return {"refused": "", "told": entries(log_page(Path("/dev") / name))}
    finally:
        (classes / "nvme" / name / "delete_controller").write_text("1")


def log_page(controller: Path) -> bytes:
    """The discovery log page, with at most ENTRIES entries, read with Get Log Page."""
    page = ctypes.create_string_buffer(ENTRY_BYTES * (1 + ENTRIES))
    dwords = len(page) // 4 - 1
    command = bytearray(COMMAND.size)
    COMMAND.pack_into(command, 0, GET_LOG_PAGE, ctypes.addressof(page), len(page), DISCOVERY_PAGE | dwords << 16)
    device = os.open(controller, os.O_RDWR)
    try:
        fcntl.ioctl(device, ADMIN_COMMAND, command)
    finally:
        os.close(device)
    return page.raw


def entries(page: bytes) -> list[list[str]]:
    """NQN and address of each entry of a discovery log page."""
    count = int.from_bytes(page[8:16], "little")
    records = []
    for at in range(ENTRY_BYTES, ENTRY_BYTES * (1 + min(count, ENTRIES)), ENTRY_BYTES):
        nqn, address = page[at + 256 : at + 512], page[at + 512 : at + 768]
        records.append([part.partition(b"\0")[0].decode().strip() for part in (nqn, address)])
    return records


def words_of(options: dict[str, Any]) -> str:
    """Options as the kernel takes them. An option with the value true is written as its name alone."""
    return ",".join(name if value is True else f"{name}={value}" for name, value in options.items())


def look(classes: Path, nqn: str) -> dict[str, Any]:
    """{device, paths, namespaces}: the first multipath device of a subsystem, and the state of every controller.

    device: empty while there is none. namespaces: number -> {device, size_bytes}.
    A path: {address, state, controller: the controller ID, ana: ANA state of the namespace on this path, queues: number
    of its I/O queues, without the admin queue}.
    """
    paths, namespaces = [], {}
    for controller in sorted((classes / "nvme").glob("nvme*")):
        if text(controller / "subsysnqn") == nqn:
            ana = [text(file) for file in sorted(controller.glob("nvme*/ana_state"))]
            named = {"address": remote(text(controller / "address")), "state": text(controller / "state")}
            numbers = {
                "controller": int(text(controller / "cntlid")),
                "queues": int(text(controller / "queue_count")) - 1,
            }
            paths.append({**named, **numbers, "ana": (ana or [""])[0]})
    for subsystem in sorted((classes / "nvme-subsystem").glob("nvme-subsys*")):
        if text(subsystem / "subsysnqn") == nqn:
            for head in sorted(path for path in subsystem.glob("nvme*n*") if "c" not in path.name):
                size_bytes = int(text(head / "size")) * SECTOR_BYTES
                namespaces[text(head / "nsid")] = {"device": f"/dev/{head.name}", "size_bytes": size_bytes}
    device = namespaces.get("1", {"device": ""})["device"]
    return {"device": device, "paths": paths, "namespaces": namespaces}


def disconnect(classes: Path, nqn: str) -> None:
    """Remove every controller of a subsystem, and with them its device."""
    for controller in sorted((classes / "nvme").glob("nvme*")):
        if text(controller / "subsysnqn") == nqn:
            (controller / "delete_controller").write_text("1")


def remote(address: str) -> str:
    """Address of a gateway: the kernel has `traddr=A,trsvcid=B,src_addr=C`, where C is the initiator's own."""
    return dict(part.partition("=")[::2] for part in address.split(","))["traddr"]


def text(path: Path) -> str:
    """The value of an attribute."""
    return path.read_text().strip()


def answer(request: dict[str, Any], fabrics: Path = FABRICS, classes: Path = CLASS) -> dict[str, Any]:
    """Carry out a request: connect or discover (options), look or disconnect (nqn)."""
    do = request["do"]
    if do == "connect":
        return connect(fabrics, request["options"])
    if do == "discover":
        return discover(fabrics, classes, request["options"])
    if do == "look":
        return look(classes, request["nqn"])
    disconnect(classes, request["nqn"])
    return {}
