"""What is waited for before a manager is started: the age of its monitors' machines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.deploy.packages import await_age
from tests.fake_clock import VirtualClock


@dataclass
class Machine:
    """Booted when its clock stood at `booted`; one that is stuck never grows older."""

    clock: VirtualClock
    booted: float = 0.0
    stuck: bool = False
    name: str = "n0"

    def run(self, argv: Sequence[str], **_options: Any) -> Result:
        age_s = 0.0 if self.stuck else self.clock.now - self.booted
        return Result(tuple(argv), 0, f"{age_s:.2f} 1.00\n".encode(), b"")


def test_the_youngest_monitor_is_waited_for() -> None:
    clock = VirtualClock(now=100.0)
    machines = [Machine(clock, booted=95.0), Machine(clock, booted=90.0), Machine(clock, booted=0.0)]
    await_age(cast("Any", machines), 30.0, time=clock)
    assert 125.0 < clock.now < 126.0


def test_old_machines_cost_nothing() -> None:
    clock = VirtualClock(now=100.0)
    await_age(cast("Any", [Machine(clock)]), 30.0, time=clock)
    assert clock.slept == []


def test_a_machine_whose_clock_stands_still_is_named() -> None:
    clock = VirtualClock(now=100.0)
    with pytest.raises(NotReached, match="n0 to have been up for 30 s"):
        await_age(cast("Any", [Machine(clock, stuck=True)]), 30.0, time=clock)
