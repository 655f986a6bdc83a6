"""Names and labels of what a run makes in the engine."""

from pathlib import PurePosixPath

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL
from cephlab.lab.providers.engine.places import HOME_LABEL

NODE_LABEL = "cephlab.node"

DEVICES_DIRECTORY = PurePosixPath("/cephlab/devices")


def labels(run_id: str, home: Home) -> dict[str, str]:
    """Labels of everything that a run makes in the engine. Things without both labels are never touched."""
    return {LABEL: run_id, HOME_LABEL: str(home.path)}


# A run's name cannot contain a dot, so run `a` with disk `b-c` differs from run `a-b` with disk `c`.
def network_name(run_id: str) -> str:
    """The run's bridge network."""
    return f"cephlab-{run_id}"


def container_name(run_id: str, node: str) -> str:
    """A node's container."""
    return f"cephlab-{run_id}.{node}"


def beside_name(run_id: str, node: str, key: str) -> str:
    """A second container of a node, made from the image with that key."""
    return f"{container_name(run_id, node)}.{key[:12]}"


def node_volume(run_id: str, node: str) -> str:
    """The volume of a node's own directory."""
    return f"cephlab-{run_id}.node.{node}"


def disks_volume(run_id: str) -> str:
    """The volume with all disks of the run."""
    return f"cephlab-{run_id}.disks"


def disk_device(disk: str) -> PurePosixPath:
    """Path of a disk's loop device inside its container."""
    return DEVICES_DIRECTORY / disk
