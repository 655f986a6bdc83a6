"""Machines of an inventory as targets of a tuning. All can be checked; only those on a list can be changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.providers.ssh.lab import SshLab
from cephlab.lab.spec.inventory import Inventory
from cephlab.lab.spec.inventory import Machine as Known
from cephlab.lab.tunables.machine import Machine, Runner
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.tune import Site, Target

FOLDER = Path("tunings/machines")


@dataclass(frozen=True)
class Permitted:
    """Runs a tuning's script on a machine. NotPermitted for a write to a machine that the list does not name."""

    machine: Known
    runner: Runner
    permit: Permit

    @property
    def name(self) -> str:
        return self.machine.name

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        """argv: `python3` and what it does; stdin: a request of lab/tunables/on_host.py."""
        request = json.loads(stdin)
        if (request["write"] or request["swap"] is not None) and self.name not in self.permit.hosts:
            raise _refused(self.name)
        own = (self.machine.python, *argv[1:])
        whole = ("sudo", "-n", *own) if self.machine.sudo else own
        return self.runner.run(whole, timeout_s=timeout_s, stdin=stdin)


def _refused(name: str) -> NotPermitted:
    return NotPermitted(f"changing settings of {name}, which is not on the list", "hosts", name)


@contextmanager
def of_inventory(
    inventory: Inventory, permit: Permit, home: Home, *, changing: bool, say: Callable[[str], None]
) -> Iterator[tuple[Target, ...]]:
    """A target for each machine. changing: only for those on the list.

    The list is printed before any machine is entered. NotPermitted, with nothing entered, where it names none of them.
    Records are kept in the home, as for this machine: they outlive the connection.
    """
    chosen = [machine for machine in inventory.machines if not changing or machine.name in permit.hosts]
    if not chosen:
        raise _refused(inventory.machines[0].name)
    for line in permit.describe():
        say(line)
    left = [machine.name for machine in inventory.machines if machine not in chosen]
    if left:
        say(f"left alone, as the list does not name them: {', '.join(left)}")
    with entered(inventory, home, chosen) as runners:
        yield tuple(_target(machine, Permitted(machine, runners[machine.name], permit), home) for machine in chosen)


def _target(known: Known, runner: Permitted, home: Home) -> Target:
    site = Site(Machine(known.name, runner, known.cluster_address))
    # By address too: a name in another inventory may be another machine.
    return Target(known.name, (site,), None, Records(home.path / FOLDER / f"{known.name}@{known.address}"))


@contextmanager
def entered(inventory: Inventory, home: Home, machines: Sequence[Known]) -> Iterator[Mapping[str, Runner]]:
    """Enter machines over ssh; what was put there is removed at the end."""
    runs = Runs(home)
    with ExitStack() as undo:
        run = runs.create(SshProvider.name)
        undo.callback(runs.forget, run)
        lab = SshLab(run, inventory.machines)
        undo.callback(lab.close)
        for machine in machines:
            lab.add_machine(machine)
        yield lab.hosts
