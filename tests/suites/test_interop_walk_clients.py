"""A client of a walk that crashes is trouble of Ceph, and the walk is shortened. Other ends are trouble of the lab."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import CephTrouble, CommandFailed, CommandTimedOut
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.interop.walks.live import Walking, lines, walk
from cephlab.suites.interop.walks.rados_model import RadosModel
from cephlab.suites.interop.walks.walk import Step, answer_of

SIDES = ("x86_64", "aarch64")
LENGTH, SEED = 24, 2


def model() -> RadosModel:
    return RadosModel(Random(3), omap=True)


@dataclass
class Machine:
    """A host whose clients share one service. They end with the status `code` when they are asked to append.

    leaving: what happens to a client that leaves the cluster; None if it can.
    """

    code: int
    service: RadosModel
    name = "n0"
    directory = PurePosixPath("/lab")
    leaving: Exception | None = None
    started: int = 0
    clients: list[Client] = field(default_factory=list)

    def push(self, source: bytes, target: PurePosixPath) -> None: ...
    def remove(self, path: PurePosixPath) -> None: ...

    def channel(self, argv: Sequence[str]) -> Client:
        self.started += 1
        self.clients.append(Client(self))
        return self.clients[-1]


@dataclass
class Client:
    """A client's program. Without settings it cannot answer."""

    machine: Machine
    settings: Any = None
    ended: bool = False
    held: bool = False

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        operation, arguments = json.loads(line)
        if operation == "settings":
            self.settings = arguments
        assert self.settings == {"pool": "walk"}
        if operation == "append":
            self.ended = True
            raise CommandFailed(["python3"], self.machine.code, "", "before\nlast words\n", "n0")
        if operation == "begin":
            self.machine.service = model()
        if operation == "end" and self.machine.leaving:
            raise self.machine.leaving
        if operation in ("settings", "begin", "end"):
            self.held = operation != "end"
            return b"null"
        return json.dumps(answer_of(self.machine.service, Step("", operation, arguments))).encode()

    def alive(self) -> bool:
        return not self.ended

    def close(self) -> None:
        self.ended = True


def on(machine: Machine) -> dict[str, tuple[Host, dict[str, str]]]:
    return {side: (cast("Host", machine), {"pool": "walk"}) for side in SIDES}


def test_a_walk_whose_client_crashes_is_red_and_shortened(tmp_path: Path) -> None:
    machine = Machine(-11, model())
    recorder = History().recorder("interop.walk-rados")
    stage = Stage(cast("Any", SimpleNamespace(patience=1.0)), recorder, Random(SEED), tmp_path)
    with lines("rados", on(machine), 1.0) as ends:
        walk(stage, Walking("rados", model, ends, "t"), LENGTH)
    verdict = CHECKS["observations"](recorder.events())
    assert verdict.outcome is Outcome.FAIL, verdict
    assert re.search(r"walk over rados, 1 of \d+ steps", verdict.reason)
    assert "got {'the client died of': 'SIGSEGV', 'its last errors': ['before', 'last words']}" in verdict.reason
    assert machine.started > len(SIDES), "a new client took the shorter walks"
    assert recorder.programs()["walk-rados.py"].count(b"'append'") == 1


@pytest.mark.parametrize(("patience", "limit_s"), [(1.0, 60.0), (3.0, 180.0), (19.0, 300.0)])
def test_a_patient_run_does_not_shorten_a_walk_for_many_minutes(
    patience: float, limit_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float] = []
    after = Deadline.after

    def noted(seconds: float) -> Deadline:
        limits.append(seconds)
        return after(seconds)

    monkeypatch.setattr(Deadline, "after", noted)
    recorder = History().recorder("interop.walk-rados")
    stage = Stage(cast("Any", SimpleNamespace(patience=patience)), recorder, Random(SEED), tmp_path)
    with lines("rados", on(Machine(-11, model())), patience) as ends:
        walk(stage, Walking("rados", model, ends, "t"), LENGTH)
    assert limits == [limit_s]


@pytest.mark.parametrize(
    ("code", "name"), [(-11, "SIGSEGV"), (139, "SIGSEGV"), (-6, "SIGABRT"), (134, "SIGABRT"), (135, "SIGBUS")]
)
def test_a_client_that_crashes_is_trouble_of_ceph(code: int, name: str) -> None:
    with (
        lines("rados", on(Machine(code, model())), 1.0) as ends,
        pytest.raises(CephTrouble, match=f"a client died of {name} during append") as died,
    ):
        ends[SIDES[0]].ask("append", {"name": "x"})
    assert (died.value.exit_code, died.value.detail.splitlines()[-1]) == (1, "last words")
    assert "{'name': 'x'}" in died.value.detail


@pytest.mark.parametrize("code", [1, -9, 137, -15, 143, 127])
def test_a_client_that_ends_in_another_way_is_trouble_of_the_lab(code: int) -> None:
    with lines("rados", on(Machine(code, model())), 1.0) as ends, pytest.raises(CommandFailed):
        ends[SIDES[0]].ask("append", {"name": "x"})


def test_a_client_that_lives_gives_back_what_it_holds_before_it_ends() -> None:
    """A program that takes longer is killed, and metadata servers wait for killed clients."""
    machine = Machine(-9, model())
    with lines("rados", on(machine), 1.0) as ends:
        with pytest.raises(CommandFailed):
            ends[SIDES[0]].ask("append", {"name": "x"})
        assert [client.held for client in machine.clients] == [True, True]
    assert [client.held for client in machine.clients] == [True, False]


@pytest.mark.parametrize(
    ("leaving", "wanted"),
    [
        (CommandTimedOut(["python3"], 30.0, "", "", "n0"), "the client on n0 cannot leave the cluster within 30 s"),
        (CommandFailed(["python3"], -6, "", "assert\n", "n0"), "a client died of SIGABRT during end"),
    ],
)
def test_a_client_that_cannot_leave_is_trouble_of_ceph(leaving: Exception, wanted: str) -> None:
    machine = Machine(-9, model(), leaving)
    with pytest.raises(CephTrouble, match=wanted) as trouble, lines("rados", on(machine), 1.0):
        pass
    assert str(trouble.value).count(wanted) == 2, "each of both clients is named"


def test_a_client_that_is_killed_while_it_leaves_is_trouble_of_the_lab() -> None:
    machine = Machine(-9, model(), CommandFailed(["python3"], -9, "", "", "n0"))
    with pytest.raises(CommandFailed), lines("rados", on(machine), 1.0):
        pass


def test_a_walk_that_breaks_does_not_wait_for_its_clients() -> None:
    machine = Machine(-9, model())
    with pytest.raises(KeyboardInterrupt), lines("rados", on(machine), 1.0):
        raise KeyboardInterrupt
    assert [client.held for client in machine.clients] == [True, True]
