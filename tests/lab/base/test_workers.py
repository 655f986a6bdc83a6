"""Threads of the lab: waited for, but not by somebody who interrupts."""

import threading
from concurrent.futures import Future
from contextlib import nullcontext

import pytest

from cephlab.lab.base.errors import LabBroken, interruption
from cephlab.lab.base.workers import Workers


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
