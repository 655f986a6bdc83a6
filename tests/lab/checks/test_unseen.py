"""Writes that nobody read before the next one: found as they are defined, and without comparing each with each."""

import random
from collections.abc import Sequence
from importlib import import_module

import pytest

from cephlab.lab.checks.survival import survival
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import Event
from cephlab.lab.history.operations import Act, Ended, Operation, pack

SURVIVAL = import_module("cephlab.lab.checks.survival")


def drawn(seed: int) -> list[Operation]:
    """Up to 14 operations of one key, with equal times among them, as clocks of whole halves make them."""
    source = random.Random(seed)
    made: list[Operation] = []
    for version in range(1, source.randint(2, 15)):
        began, act = source.randint(0, 12) / 2, source.choice((Act.WRITE, Act.WRITE, Act.READ, Act.FINAL))
        number = version if act is Act.WRITE else source.randint(0, 15)
        ended = source.choice((None, began + source.randint(0, 6) / 2))
        outcome, error = source.choice((Ended.OK, Ended.OK, *Ended)), source.choice((0, 0, 0.5))
        made.append(Operation("l", "c0", 0, act, 1, number, began, ended, outcome, clock_error_s=error))
    return made


def by_definition(of_key: Sequence[Operation]) -> list[Operation]:
    """Each write compared with each read."""
    writes = sorted((op for op in of_key if op.act is Act.WRITE), key=lambda op: op.began_s)
    reads = [op for op in of_key if op.act is not Act.WRITE and op.outcome is Ended.OK]
    unseen = []
    for number, write in enumerate(writes):
        later = (op for op in writes[number + 1 :] if write.ended_s is not None and op.began_s >= write.ended_s)
        following = next((op for op in later if op.outcome is not Ended.FAIL), None)
        if write.outcome is not Ended.OK or following is None:
            continue
        if not any(read.version == write.version or between(write, read, following) for read in reads):
            unseen.append(write)
    return unseen


def between(before: Operation, read: Operation, after: Operation) -> bool:
    pairs = ((before, read), (read, after))
    return all(
        earlier.ended_s is not None and earlier.ended_s + earlier.clock_error_s < later.began_s - later.clock_error_s
        for earlier, later in pairs
    )


@pytest.mark.slow
def test_writes_that_nobody_read_are_those_of_the_definition() -> None:
    counts = set()
    for seed in range(2000):
        of_key = drawn(seed)
        assert list(SURVIVAL._unseen(of_key)) == by_definition(of_key), seed
        counts.add(len(by_definition(of_key)))
    assert counts >= {0, 1, 2}


@pytest.mark.slow
def test_a_long_load_of_one_key_is_judged_without_comparing_each_write_with_each_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = [Operation("l", "c0", 0, Act.WRITE, 1, n, 3.0 * n, 3.0 * n + 1, Ended.OK) for n in range(1, 2001)]
    reads = [Operation("l", "c0", 0, Act.READ, 1, n, 3.0 * n + 1.5, 3.0 * n + 2, Ended.OK) for n in range(1, 2000)]
    compared = []
    surely_before = SURVIVAL._surely_before

    def counting(earlier: Operation, later: Operation) -> bool:
        compared.append(earlier)
        return bool(surely_before(earlier, later))

    monkeypatch.setattr(SURVIVAL, "_surely_before", counting)
    assert (
        survival([Event("s", 1.0, "operations", data) for data in pack([*writes, *reads])]).outcome is not Outcome.FAIL
    )
    assert 0 < len(compared) <= 2 * (len(writes) + len(reads))
