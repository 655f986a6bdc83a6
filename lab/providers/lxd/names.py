"""Names and labels of what a run makes in LXD."""

import hashlib
import re

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL
from cephlab.lab.providers.engine.places import HOME_LABEL

_HOST = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")


def labels(run_id: str, home: Home) -> dict[str, str]:
    """Labels of everything that a run makes, e.g. its project and network. Things without both are never touched."""
    return {f"user.{LABEL}": run_id, f"user.{HOME_LABEL}": str(home.path)}


def project_name(run_id: str) -> str:
    """The run's project. Instances and volumes in it are named after their nodes and disks."""
    return f"cephlab-{run_id}"


def bridge_name(run_id: str) -> str:
    """The run's network. Also the name of an interface, so it has at most 15 characters with a tunnel's suffix."""
    return f"cl{_digest(run_id, 8)}"


def instance_name(node: str) -> str:
    """A node's instance and host name: the node's own name if that is a valid host name."""
    return node if _HOST.fullmatch(node) else f"n-{_digest(node, 12)}"


def machine_device(disk: str) -> str:
    """A disk's device in a virtual machine: 16 characters, none of which LXD escapes."""
    return f"disk{_digest(disk, 12)}"


def machine_serial(disk: str) -> str:
    """The serial number that LXD gives the disk in the machine."""
    return f"lxd_{machine_device(disk)}"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
