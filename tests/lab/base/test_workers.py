"""Threads of the lab: waited for, but not by somebody who interrupts."""

import threading
from concurrent.futures import Future
from contextlib import nullcontext

import pytest

from cephlab.lab.base.errors import LabBroken, interruption
from cephlab.lab.base.workers import Workers, repeated


def test_an_interrupted_block_does_not_wait_for_its_threads() -> None:
    goes_on, began = threading.Event(), threading.Event()

    def work() -> bool:
        began.set()
        return goes_on.wait(60)

    started: list[Future[bool]] = []

    def interrupted() -> None:
        with Workers(1) as workers:
            started.extend(workers.submit(work) for _ in range(2))
            began.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    running, waiting = started
    assert not running.done()
    assert waiting.cancelled()
    goes_on.set()
    assert running.result(60)


@pytest.mark.parametrize("error", [None, LabBroken("no")])
def test_any_other_end_waits_for_them(error: Exception | None) -> None:
    slow = threading.Event()
    threading.Timer(0.1, slow.set).start()
    started: list[Future[bool]] = []

    def ended() -> None:
        with Workers(1) as workers:
            started.append(workers.submit(slow.wait, 60))
            if error is not None:
                raise error

    with nullcontext() if error is None else pytest.raises(LabBroken):
        ended()
    assert started[0].done()


class Refusing:
    """Refuses from its second call on."""

    def __init__(self) -> None:
        self.calls = 0
        self.refused = threading.Event()

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == 2:
            self.refused.set()
            raise ValueError("unreadable")


def test_an_error_of_a_repeated_call_is_raised_at_the_end_of_its_block() -> None:
    act, went_on = Refusing(), False
    with pytest.raises(ValueError, match="unreadable"), repeated(act, 0.001):
        went_on = act.refused.wait(60)
    assert (went_on, act.calls) == (True, 2)


def test_an_error_of_the_block_comes_before_that_of_a_repeated_call() -> None:
    act = Refusing()

    def break_down() -> None:
        with repeated(act, 0.001):
            act.refused.wait(60)
            raise LabBroken("away")

    with pytest.raises(LabBroken, match="away"):
        break_down()


def hidden(first: BaseException, *, told: bool) -> LabBroken:
    """An error that another one led to, told or in silence."""
    try:
        try:
            raise first
        except (KeyboardInterrupt, ValueError) as error:
            raise LabBroken("a") from (error if told else None)
    except LabBroken as found:
        return found


@pytest.mark.parametrize("told", [True, False])
def test_an_interruption_is_found_behind_an_error(told: bool) -> None:
    first = KeyboardInterrupt()
    assert interruption(hidden(first, told=told)) is first
    assert interruption(hidden(ValueError(), told=told)) is None
    assert interruption(first) is first
