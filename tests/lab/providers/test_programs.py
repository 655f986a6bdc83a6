"""Programs that answer requests: one start serves many, and one that has ended starts again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from cephlab.lab.base.errors import CommandFailed, LabBroken
from cephlab.lab.base.process import Command, Pipe
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.programs import Programs

SOURCE = """from __future__ import annotations

import os

ASKED = []


def answer(request: dict) -> dict:
    ASKED.append(request["number"])
    return {"sum": sum(ASKED), "rest": 1 // request["by"], "pid": os.getpid()}
"""


@dataclass
class Machine:
    """A host whose programs run here. on: whether it has power; started: the channel of each program."""

    name: str = "c1"
    on: bool = True
    started: list[Pipe] = field(default_factory=list)

    def up(self) -> bool:
        return self.on

    def channel(self, argv: Sequence[str]) -> Pipe:
        if not self.on:
            raise LabBroken(f"{self.name} is down")
        self.started.append(Pipe(Command(tuple(argv))))
        return self.started[-1]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "summing.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def programs() -> Iterator[Programs]:
    programs = Programs()
    yield programs
    programs.close()


def asked(programs: Programs, machine: Machine, program: Path, number: int, by: int = 1) -> int:
    request = {"number": number, "by": by}
    return int(programs.ask(cast("Host", machine), program, request, timeout_s=20.0)["sum"])


def test_one_start_answers_every_request_on_a_host(programs: Programs, program: Path) -> None:
    first, second = Machine("c1"), Machine("c2")
    assert [asked(programs, first, program, number) for number in (1, 2, 3)] == [1, 3, 6]
    assert asked(programs, second, program, 7) == 7
    assert (len(first.started), len(second.started)) == (1, 1)
    programs.close()
    assert not first.started[0].alive()
    assert not second.started[0].alive()


def test_a_program_that_failed_tells_why_and_starts_again(programs: Programs, program: Path) -> None:
    machine = Machine()
    assert asked(programs, machine, program, 1) == 1
    with pytest.raises(CommandFailed, match="ZeroDivisionError"):
        asked(programs, machine, program, 2, by=0)
    assert asked(programs, machine, program, 4) == 4
    assert len(machine.started) == 2


def test_a_machine_without_power_is_not_asked(programs: Programs, program: Path) -> None:
    machine = Machine()
    assert asked(programs, machine, program, 1) == 1
    machine.on = False
    with pytest.raises(LabBroken, match="c1 is down"):
        asked(programs, machine, program, 1)
    machine.on = True
    assert asked(programs, machine, program, 5) == 5
