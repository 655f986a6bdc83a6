"""The clients of a recorded load: none is left running, and what they logged is kept, however the load ends."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import DaemonDied, LabBroken
from cephlab.lab.history import operations
from cephlab.lab.history.history import History
from cephlab.lab.workloads.recorded import Load, RecordedLoad

LOGGED = b"began 1\n0 i 2000000 w 0 16777217\n0 o 2000100 o 16777217\n"


def lives() -> bool:
    return True


def fails() -> bool:
    raise DaemonDied("osd.0", "n0", "ceph-osd", "", "", 1)


@dataclass
class Machine:
    """A host with a client. log: what the client writes; ends: the result of a wait for it; did: what it was told.

    refuses, unstopped, unread: it fails where a client is started, told to stop, or collected from.
    """

    name: str
    log: bytes = LOGGED
    ends: Callable[[], bool] = lives
    alive: Callable[[], bool] = lives
    refuses: bool = False
    unstopped: bool = False
    unread: bool = False
    directory: PurePosixPath = field(default_factory=lambda: PurePosixPath("/lab"))
    did: list[object] = field(default_factory=list)

    def spawn(self, argv: object, *, log: PurePosixPath) -> "Machine":
        if self.refuses:
            raise LabBroken(f"{self.name} is full")
        return self

    def wait(self, timeout_s: float) -> bool:
        return self.ends()

    def signal(self, number: signal.Signals) -> None:
        self.did.append(number)

    def push(self, source: Path | bytes, path: PurePosixPath) -> None:
        if path.suffix == ".stop" and self.unstopped:
            raise LabBroken(f"{self.name} does not answer")
        if path.suffix == ".stop":
            self.did.append("stop")

    def remove(self, path: PurePosixPath) -> None: ...
    def up(self) -> bool:
        return True

    def exists(self, path: PurePosixPath) -> bool:
        return True

    def read(self, path: PurePosixPath) -> bytes:
        return self.log if path.suffix == ".log" else b"words"

    def call(self, _name: str) -> dict[str, Any]:
        if self.unread:
            raise LabBroken(f"{self.name} has no clock")
        return {"boot": "another", "monotonic_s": 1.0}


def load_on(*machines: Machine) -> tuple[RecordedLoad, History]:
    hosts, history = {machine.name: machine for machine in machines}, History()
    cluster = SimpleNamespace(hosts=hosts, client_on=hosts.__getitem__, client_name="client.admin", patience=1.0)
    load = Load(pool="p", nodes=tuple(hosts), seed=1)
    return RecordedLoad(cast("Any", cluster), history.recorder("s"), load), history


def logged(history: History) -> list[str]:
    return [operation.client for operation in operations.operations_of(history.events())]


@pytest.mark.parametrize("second", [Machine("c1", refuses=True), Machine("c1", alive=lambda: False)])
def test_a_load_that_cannot_start_on_all_machines_runs_on_none(second: Machine) -> None:
    first = Machine("c0")
    load, _ = load_on(first, second)
    with pytest.raises(LabBroken), load.running():
        pytest.fail("it began")
    assert first.did == [signal.SIGKILL]


def test_what_was_logged_is_kept_where_a_dead_daemon_ends_the_wait() -> None:
    """While an operation hangs on it, the client does not end by itself."""
    machines = Machine("c0"), Machine("c1", ends=fails), Machine("c2")
    load, history = load_on(*machines)
    load.start()
    with pytest.raises(DaemonDied):
        load.stop()
    assert logged(history) == ["c0", "c1", "c2"]
    assert [machine.did for machine in machines] == [["stop", signal.SIGKILL]] * 3


@pytest.mark.parametrize(
    ("broken", "words", "kept"),
    [
        (Machine("c1", unstopped=True, ends=lambda: False), "c1 does not answer", ["c0", "c1", "c2"]),
        (Machine("c1", unread=True), "c1 has no clock", ["c0", "c2"]),
    ],
    ids=["not told to stop", "not collected from"],
)
def test_a_machine_that_fails_at_the_end_takes_no_other_client_with_it(
    broken: Machine, words: str, kept: list[str]
) -> None:
    load, history = load_on(Machine("c0"), broken, Machine("c2"))
    with pytest.raises(LabBroken) as failed, load.running():
        pass
    assert words in f"{failed.value}{failed.value.__context__}"
    assert logged(history) == kept
    assert load.by_worker() == [], "no client is left"


def test_a_worker_that_is_stuck_does_not_hide_behind_the_others() -> None:
    done = b"".join(b"%d i 2 r 0 0\n%d o 3 o 1\n" % (worker, worker) for worker in (0, 2, 3, 0))
    load, _ = load_on(Machine("c0"), Machine("c1", log=b"began 1\n" + done + b"1 i 2 r 0 0\n"))
    with load.running():
        assert load.by_worker() == [1, 0, 0, 0, 2, 0, 1, 1]
        assert load.completed() == 5


def test_a_client_that_does_not_end_is_named_and_killed() -> None:
    machines = Machine("c0"), Machine("c1", ends=lambda: False)
    load, history = load_on(*machines)
    with pytest.raises(LabBroken, match="the load on c1 did not end in time"):
        load.verify()
    assert logged(history) == ["c0", "c1"]
    assert [machine.did for machine in machines] == [[], [signal.SIGKILL]]
