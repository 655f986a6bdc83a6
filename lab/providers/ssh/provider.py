"""Provider `ssh`: what it can do, why it is unavailable, and how it finds what killed runs left on machines."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cephlab.lab.base import process
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.given import user_path
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId, Runs
from cephlab.lab.providers.base import Images, removing
from cephlab.lab.providers.ssh.lab import SshLab, marks, recorded, sweep
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec
from cephlab.lab.spec.inventory import INVENTORY_VARIABLE, Inventory, load_inventory, machine_from_json

_KILL_PATIENCE_S = 60.0


def inventory_of_environment() -> Inventory | None:
    """The inventory that the environment names, if any."""
    named = os.environ.get(INVENTORY_VARIABLE)
    return load_inventory(user_path(named)) if named else None


class SshProvider:
    """Nodes on machines of an inventory, in a folder of the run's own. Clusters are attached, not raised."""

    name = "ssh"
    cost = 100

    def __init__(self, find: Callable[[], Inventory | None] = inventory_of_environment) -> None:
        self._find = find

    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.HARDWARE, Capability.SPDK_GATEWAYS})

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        if shutil.which("ssh") is None:
            return Unavailable("ssh is not installed", "", "install the package openssh-client")
        try:
            inventory = self._find()
        except SpecError as error:
            return Unavailable(error.what, error.detail, error.hint)
        if inventory is None:
            hint = f"name a file with --inventory or {INVENTORY_VARIABLE}; see docs/attach.md"
            return Unavailable("there is no inventory of machines", "", hint)
        if spec is not None:
            return Unavailable(
                "cephlab raises no clusters on existing machines",
                "their disks hold other people's data",
                "use the existing cluster: `cephlab gate --lab ssh --inventory FILE`; see docs/attach.md",
            )
        return None

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet) -> Iterator[SshLab]:
        """Bare nodes with files as disks. The machines' own programs are used instead of images."""
        lab = self.open(run)
        try:
            with removing(run, lab.close):
                for node in spec.nodes:
                    lab.add_node(node)
                yield lab
        finally:
            lab.hang_up()

    def open(self, run: Run) -> SshLab:
        """A lab without nodes on the inventory's machines; Unavailable without an inventory."""
        inventory = self._find()
        if inventory is None:
            raise self.unavailable() or Unavailable("there is no inventory of machines")
        return SshLab(run, inventory.machines)

    def attach(self, run: Run, state: Mapping[str, Any]) -> SshLab:
        lab = SshLab(run, [machine_from_json(raw) for raw in state["machines"]])
        lab.restore(state)
        return lab

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        """Remove a run from its recorded machines, or without a record from every machine of the inventory."""
        known = tuple(recorded(home.runs / run_id).values())
        if not known and not (home.runs / run_id).exists():
            inventory = self._find()
            known = inventory.machines if inventory is not None else ()
        left = process.find_marked(marks(home, run_id)) if known else []
        try:
            return sweep(home, run_id, known)
        finally:
            # Only the run's own ssh processes have both marks. They exist only if a machine is known.
            for ssh in left:
                ssh.kill()
                ssh.wait(_KILL_PATIENCE_S)

    def leftovers(self, home: Home) -> frozenset[RunId]:
        """Runs whose record names machines. Without a record, nothing is known here about machines."""
        return frozenset(run.id for run in Runs(home).all() if recorded(run.directory))
