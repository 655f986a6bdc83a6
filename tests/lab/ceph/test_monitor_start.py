"""Monitors under an emulator start first, and the others once those listen, so that all are in the first election."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import DaemonDied
from cephlab.lab.ceph.daemon import Daemon, start_monitors
from cephlab.lab.providers.host import Host


class Looker:
    """A host that is refused so many times before a monitor listens."""

    def __init__(self, said: list[str], refusals: int = 0) -> None:
        self.said = said
        self.refusals = refusals

    def run(self, argv: Sequence[str], *, check: bool) -> Any:
        *_, address, port = argv
        assert (check, port) == (False, "3300")
        self.refusals -= 1
        self.said.append(f"look at {address}")
        return SimpleNamespace(code=1 if self.refusals >= 0 else 0)


class Monitor:
    """As much of a daemon as starting it takes."""

    def __init__(self, name: str, emulated: bool, dies: bool = False) -> None:
        self.name = f"mon.{name}"
        self.host = SimpleNamespace(emulated=emulated, address=f"address of {name}")
        self.dies = dies

    def check(self) -> None:
        if self.dies:
            raise DaemonDied(self.name, "n2", "ceph-mon", "", "", 1)


def started(*monitors: Monitor, refusals: int = 0) -> list[str]:
    said: list[str] = []
    looker = cast("Host", Looker(said, refusals))
    start_monitors(cast("list[Daemon]", list(monitors)), lambda monitor: said.append(monitor.name), looker)
    return said


def test_the_others_start_once_an_emulated_monitor_listens() -> None:
    looks = ["look at address of n1"] * 3
    three = Monitor("n0", emulated=False), Monitor("n1", emulated=True), Monitor("n2", emulated=False)
    assert started(*three, refusals=2) == ["mon.n1", *looks, "mon.n0", "mon.n2"]


@pytest.mark.parametrize("emulated", [False, True])
def test_monitors_that_are_alike_start_together(emulated: bool) -> None:
    assert started(*(Monitor(name, emulated) for name in ("n0", "n1"))) == ["mon.n0", "mon.n1"]


def test_a_monitor_that_dies_ends_the_wait() -> None:
    with pytest.raises(DaemonDied):
        started(Monitor("n0", emulated=True, dies=True), Monitor("n1", emulated=False), refusals=10**6)
