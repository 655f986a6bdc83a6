"""What a thread's time goes to: named, counted once, and of nobody else's thread."""

import sys
import threading
from functools import partial

import pytest

from cephlab.lab.base.clock import Deadline, accounted, phase, spending
from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.process import run
from tests.fake_clock import VirtualClock


def new_account() -> dict[str, float]:
    return {}


def test_a_wait_counts_by_what_it_waits_for_whatever_the_number() -> None:
    clock, spent = VirtualClock(), new_account()
    with accounted(spent):
        for osd in (1, 2):
            looks = iter((False, False, True))
            Deadline.after(9, clock).wait(partial(next, looks), bool, what=f"osd.{osd}", interval_s=0.5)
    assert spent == {"wait for osd.N": pytest.approx(2.0)}


def test_what_lies_within_a_span_counts_once() -> None:
    clock, spent = VirtualClock(), new_account()
    with accounted(spent), spending("raising", clock):
        with spending("a wait", clock):
            clock.sleep(3)
        clock.sleep(1)
    assert spent == {"raising": 4.0}


def test_a_wait_that_is_never_over_counts_too() -> None:
    clock, spent = VirtualClock(), new_account()
    with accounted(spent), pytest.raises(NotReached):
        Deadline.after(5, clock).wait(lambda: 0, bool, what="nothing", interval_s=1)
    assert spent == {"wait for nothing": pytest.approx(5.0)}


def test_pauses_and_programs_have_names() -> None:
    clock, spent = VirtualClock(), new_account()
    with accounted(spent):
        Deadline.after(5, clock).pause(2)
        run([sys.executable, "-c", ""])
    assert spent.pop("pauses") == 2.0
    assert [name.startswith("run python") for name in spent] == [True]


def test_nothing_is_kept_where_nobody_asks_nor_of_another_thread() -> None:
    clock, spent = VirtualClock(), new_account()
    with spending("nobody's", clock):
        clock.sleep(1)

    def elsewhere() -> None:
        with spending("another thread's", clock):
            clock.sleep(1)

    with accounted(spent):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert spent == {}


def test_a_phase_tells_its_waits_apart_and_adds_up() -> None:
    clock, spent = VirtualClock(), new_account()
    with accounted(spent):
        for _ in range(2):
            with phase("before", clock):
                Deadline.after(5, clock).pause(2)
                clock.sleep(1)
        with spending("a program", clock):
            clock.sleep(4)
    assert spent == {"before: pauses": 4.0, "before: the rest": 2.0, "a program": 4.0}
