"""The clock of a guest that answers late, drifts off or cannot be moved, with no guest."""

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from cephlab.lab.providers.agent.host import CLOCK_ENOUGH_S, set_clock
from tests.agent_here import agent_here


class Guest:
    """behind_s: its clock; delays: on the way there, one for each request; every answer takes a millisecond back."""

    def __init__(self, behind_s: float, delays: Iterator[float], *, stuck: bool = False) -> None:
        self.behind_s = behind_s
        self.delays = delays
        self.stuck = stuck
        self.now_s = 1000.0
        self.moves = 0

    def ask(self, operation: str, *, step_s: float) -> float:
        assert operation == "clock"
        self.now_s += next(self.delays)
        if step_s and not self.stuck:
            self.behind_s -= step_s
        self.moves += bool(step_s)
        told = self.now_s - self.behind_s
        self.now_s += 0.001
        return told

    def set(self) -> float:
        return set_clock(self.ask, lambda: self.now_s)


def test_a_clock_that_is_late_is_set_by_the_quickest_answers() -> None:
    guest = Guest(0.4, chain([0.3, 0.2, 0.001], repeat(0.3)))
    assert guest.set() < 0.31  # the look after the move had slow answers alone, which leave as much open
    assert abs(guest.behind_s) < CLOCK_ENOUGH_S
    assert guest.moves == 1


def test_a_clock_that_is_right_is_left_alone() -> None:
    guest = Guest(0.002, repeat(0.001))
    assert guest.set() < 2 * CLOCK_ENOUGH_S
    assert guest.moves == 0


def test_a_clock_that_cannot_be_told_is_left_alone() -> None:
    guest = Guest(0.05, repeat(0.2))
    assert guest.set() > 0.1
    assert guest.moves == 0


def test_a_clock_that_does_not_move_is_said_to_be_off() -> None:
    guest = Guest(3.0, repeat(0.001), stuck=True)
    assert guest.set() == pytest.approx(3.0, abs=0.01)
    assert guest.moves == 4


@pytest.mark.slow
def test_an_agent_that_is_no_first_process_moves_nothing(tmp_path: Path) -> None:
    with agent_here(tmp_path) as host:
        assert not host.greet()["own_clock"]
        before = float(host.ask("clock", step_s=0.0))
        assert float(host.ask("clock", step_s=-5000.0)) >= before
