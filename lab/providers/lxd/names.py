"""What the things of a run are called in LXD."""

from __future__ import annotations

import hashlib
import re

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL
from cephlab.lab.providers.engine.places import HOME_LABEL

_HOST = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


def labels(run_id: str, home: Home) -> dict[str, str]:
    """On the project, the network and whatever else a run makes; nothing without both is ever touched."""
    return {f"user.{LABEL}": run_id, f"user.{HOME_LABEL}": str(home.path)}


def project_name(run_id: str) -> str:
    """The run's project: instances and volumes in it have the names of their nodes and disks."""
    return f"cephlab-{run_id}"


def bridge_name(run_id: str) -> str:
    """The run's network. It is an interface of the machine too, and with a tunnel's name has 15 characters at most."""
    return f"cl{_digest(run_id, 8)}"


def instance_name(node: str) -> str:
    """A node's instance, and its host name: the node's own name where that can be one."""
    return node if _HOST.fullmatch(node) else f"n-{_digest(node, 12)}"


def machine_device(disk: str) -> str:
    """The disk among a virtual machine's devices: a name of sixteen signs, none of which LXD spells otherwise."""
    return f"disk{_digest(disk, 12)}"


def machine_serial(disk: str) -> str:
    """The serial number that the disk then has in the machine."""
    return f"lxd_{machine_device(disk)}"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
