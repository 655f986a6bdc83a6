"""Connects the kernel's NVMe-over-TCP initiator and says what it sees: a program of its own, since guests run it.

It reads one JSON request from its standard input and prints one JSON answer. It imports nothing of the lab. Options as
in the kernel's drivers/nvme/host/fabrics.c.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FABRICS = Path("/dev/nvme-fabrics")
CLASS = Path("/sys/class")


def connect(fabrics: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Connect a controller: {refused: name of the error and the kernel's words} or {refused: ""}.

    options: value by name; true for a word that has no value.
    """
    words = [name if value is True else f"{name}={value}" for name, value in options.items()]
    device = os.open(fabrics, os.O_RDWR)
    try:
        os.write(device, ",".join(words).encode())
    except OSError as error:
        return {"refused": f"{error.strerror}"}
    finally:
        os.close(device)
    return {"refused": ""}


def look(classes: Path, nqn: str) -> dict[str, Any]:
    """{device, paths}: the multipath device of a subsystem, empty while there is none, and every controller's state.

    A path: {address, state, controller: its number as the gateway gave it, ana: the namespace's state on this path}.
    """
    paths, device = [], ""
    for controller in sorted((classes / "nvme").glob("nvme*")):
        if text(controller / "subsysnqn") == nqn:
            ana = [text(file) for file in sorted(controller.glob("nvme*/ana_state"))]
            named = {"address": remote(text(controller / "address")), "state": text(controller / "state")}
            paths.append({**named, "controller": int(text(controller / "cntlid")), "ana": (ana or [""])[0]})
    for subsystem in sorted((classes / "nvme-subsystem").glob("nvme-subsys*")):
        if text(subsystem / "subsysnqn") == nqn:
            heads = [path.name for path in subsystem.glob("nvme*n*") if "c" not in path.name]
            device = f"/dev/{heads[0]}" if heads else ""
    return {"device": device, "paths": paths}


def disconnect(classes: Path, nqn: str) -> None:
    """Remove every controller of a subsystem, and so its device."""
    for controller in sorted((classes / "nvme").glob("nvme*")):
        if text(controller / "subsysnqn") == nqn:
            (controller / "delete_controller").write_text("1")


def remote(address: str) -> str:
    """A gateway's address: the kernel tells `traddr=A,trsvcid=B,src_addr=C`, of which C is the initiator's own."""
    return dict(part.partition("=")[::2] for part in address.split(","))["traddr"]


def text(path: Path) -> str:
    """What an attribute says."""
    return path.read_text().strip()


def answer(request: dict[str, Any], fabrics: Path = FABRICS, classes: Path = CLASS) -> dict[str, Any]:
    """Do what is asked: connect (options), look (nqn) or disconnect (nqn)."""
    do = request["do"]
    if do == "connect":
        return connect(fabrics, request["options"])
    if do == "look":
        return look(classes, request["nqn"])
    disconnect(classes, request["nqn"])
    return {}


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))
