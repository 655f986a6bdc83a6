"""Machines of an inventory as places of a tuning: looked at by anybody, changed only where a list names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.attach.guard import NotPermitted
from lab.attach.permit import Permit
from lab.home import Home
from lab.inventory import Inventory
from lab.inventory import Machine as Known
from lab.knobs.machine import Machine, Runner
from lab.knobs.records import Records
from lab.knobs.tune import Site, Target
from lab.process import Result
from lab.providers.ssh.lab import SshLab
from lab.runs import Runs

FOLDER = Path("tunings/machines")
_LAB = "ssh"


@dataclass(frozen=True)
class Permitted:
    """Runs a tuning's script on a machine. What only reads passes; NotPermitted for the rest without the list."""

    machine: Known
    runner: Runner
    permit: Permit

    @property
    def name(self) -> str:
        return self.machine.name

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        """argv: `python3` and what it does; stdin: a request of lab/knobs/on_host.py."""
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
    """A target for each machine; of those on the list alone where they are to be changed.

    The list is said before any machine is entered. NotPermitted, with nothing entered, where it names none of them.
    Records lie in the home, as those of this machine: they outlive the connection.
    """
    chosen = [one for one in inventory.machines if not changing or one.name in permit.hosts]
    if not chosen:
        raise _refused(inventory.machines[0].name)
    for line in permit.describe():
        say(line)
    left = [one.name for one in inventory.machines if one not in chosen]
    if left:
        say(f"left alone, as the list does not name them: {', '.join(left)}")
    with entered(inventory, home, chosen) as runners:
        yield tuple(_target(one, Permitted(one, runners[one.name], permit), home) for one in chosen)


def _target(known: Known, runner: Permitted, home: Home) -> Target:
    site = Site(Machine(known.name, runner, known.cluster_address))
    # By address too: a name in another inventory may be another machine.
    return Target(known.name, (site,), None, Records(home.path / FOLDER / f"{known.name}@{known.address}"))


@contextmanager
def entered(inventory: Inventory, home: Home, machines: Sequence[Known]) -> Iterator[Mapping[str, Runner]]:
    """The machines over ssh; what was put there is removed at the end."""
    runs = Runs(home)
    run = runs.create(_LAB)
    try:
        lab = SshLab(run, inventory.machines)
        try:
            for machine in machines:
                lab.add_machine(machine)
            yield lab.hosts
        finally:
            lab.close()
    finally:
        runs.forget(run)
