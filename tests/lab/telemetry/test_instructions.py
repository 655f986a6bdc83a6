"""Instructions: counted where a machine shows its counters, named where not, and judged like any other cost."""

import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.telemetry.accounting import Usage
from cephlab.lab.telemetry.demand import Resource, Role
from cephlab.lab.telemetry.instructions import Instructions, obstacle
from cephlab.lab.telemetry.readings import Reading, spent


@dataclass
class Counters:
    """Threads' counters as files: what one reads from them is what the kernel would say."""

    folder: Path
    says: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    refuses: int = 0

    def open(self, thread: int) -> int:
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        path = self.folder / str(thread)
        path.write_bytes(struct.pack("<QQQ", *self.says.get(thread, (100, 10, 10))))
        return os.open(path, os.O_RDONLY)


@pytest.fixture
def counters(tmp_path: Path) -> Iterator[Counters]:
    obstacle.cache_clear()
    yield Counters(tmp_path)
    obstacle.cache_clear()


def processes(folder: Path, threads: dict[int, tuple[int, ...]]) -> Path:
    """A /proc with only what is looked at."""
    for pid, own in threads.items():
        for thread in own:
            (folder / "proc" / str(pid) / "task" / str(thread)).mkdir(parents=True)
    return folder / "proc"


def test_all_threads_count_and_shared_counters_are_scaled(counters: Counters, tmp_path: Path) -> None:
    proc = processes(tmp_path, {7: (7, 8), 9: (9,)})
    counters.says = {7: (1000, 50, 50), 8: (300, 60, 20), 9: (5, 10, 0)}
    instructions = Instructions([7, 9], opened=counters.open, proc=proc)
    assert instructions.read() == 1000 + 900
    instructions.close()


def test_a_machine_without_counters_is_named(counters: Counters) -> None:
    counters.refuses = errno.ENOENT
    assert obstacle(counters.open) == "the processor's counters are not available: No such file or directory"


def test_counters_that_open_are_no_obstacle(counters: Counters) -> None:
    assert obstacle(counters.open) is None


def test_a_thread_that_ended_is_passed_over_and_a_refusal_is_not(counters: Counters, tmp_path: Path) -> None:
    proc = processes(tmp_path, {7: (7,)})
    counters.refuses = errno.ESRCH
    assert Instructions([7], opened=counters.open, proc=proc).read() == 0
    counters.refuses = errno.EACCES
    with pytest.raises(LabBroken, match="instructions cannot be counted"):
        Instructions([7], opened=counters.open, proc=proc)


def reading(at_s: float, counted: float) -> Reading:
    usage = {Role.PRIMARY: Usage(cpu_s=at_s), Role.REPLICA: Usage(cpu_s=at_s)}
    return Reading(at_s, usage, {}, {}, {}, 0.0, 0.0, {Role.PRIMARY: counted})


def test_what_was_counted_between_is_a_cost_of_those_that_were_counted() -> None:
    costs = spent(reading(1.0, 1000.0), reading(3.0, 5000.0)).costs
    assert costs[Role.PRIMARY][Resource.INSTRUCTIONS] == 4000.0
    assert Resource.INSTRUCTIONS not in costs[Role.REPLICA]
