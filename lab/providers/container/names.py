"""What the things of a run are called in the engine."""

from __future__ import annotations

from pathlib import PurePosixPath

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL
from cephlab.lab.providers.engine.places import HOME_LABEL

NODE_LABEL = "cephlab.node"

DEVICES_DIRECTORY = PurePosixPath("/cephlab/devices")


def labels(run_id: str, home: Home) -> dict[str, str]:
    """On everything that a run makes in the engine; nothing without both is ever touched."""
    return {LABEL: run_id, HOME_LABEL: str(home.path)}


# A dot cannot be part of a run's name, so that run `a`, disk `b-c` and run `a-b`, disk `c` stay apart.
def network_name(run_id: str) -> str:
    """The run's bridge network."""
    return f"cephlab-{run_id}"


def container_name(run_id: str, node: str) -> str:
    """A node's container."""
    return f"cephlab-{run_id}.{node}"


def node_volume(run_id: str, node: str) -> str:
    """The volume of a node's own directory."""
    return f"cephlab-{run_id}.node.{node}"


def disks_volume(run_id: str) -> str:
    """The volume with all disks of the run."""
    return f"cephlab-{run_id}.disks"


def disk_device(disk: str) -> PurePosixPath:
    """A disk's loop device inside the container that has it."""
    return DEVICES_DIRECTORY / disk
