"""What the things of a run are called in the engine."""

from __future__ import annotations

from pathlib import PurePosixPath

from lab.home import Home
from lab.runs import LABEL, Run

HOME_LABEL = "cephlab.home"
"""Label with the folder of the run, because two folders may each have a run of the same name."""

NODE_LABEL = "cephlab.node"

NODE_DIRECTORY = PurePosixPath("/cephlab/node")
DISKS_DIRECTORY = PurePosixPath("/cephlab/disks")
DEVICES_DIRECTORY = PurePosixPath("/cephlab/devices")


def labels(run_id: str, home: Home) -> dict[str, str]:
    """On everything that a run makes in the engine; nothing without both is ever touched."""
    return {LABEL: run_id, HOME_LABEL: str(home.path)}


def home_of(run: Run) -> Home:
    """The home that a run is in."""
    return Home(run.directory.parent.parent)


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


def disk_file(disk: str) -> PurePosixPath:
    """A disk's sparse file inside every container."""
    return DISKS_DIRECTORY / disk / "block"


def disk_device(disk: str) -> PurePosixPath:
    """A disk's loop device inside the container that has it."""
    return DEVICES_DIRECTORY / disk
