"""Compares what was acknowledged to clients with what they read: no data lost, made up, or replaced by older data."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.verdict import Outcome, Verdict, first_of, merge
from cephlab.lab.history.history import Event
from cephlab.lab.history.operations import ALIEN, NOTHING, Act, Ended, Operation, operations_of

_SHOWN = 10

Key = tuple[str, int]
"""(load, key): what holds one value at a time."""


def survival(events: Sequence[Event]) -> Verdict:
    """Judge `operations` events: no acknowledged write lost, no value nobody wrote, no read older than one before it.

    A final read that fails is a loss of the acknowledged data. Inconclusive: no acknowledged write; a written key that
    was not read at the end; an acknowledged value overwritten before anybody read it; a load whose client was
    cut short. A write of unknown outcome may take effect at any time after it began, or never. Times of different
    clients are compared only as far as their clocks agree.
    """
    operations = operations_of(events)
    by_key: dict[Key, list[Operation]] = defaultdict(list)
    for op in operations:
        by_key[(op.load, op.key)].append(op)
    wrong = [line for key, of_key in sorted(by_key.items()) for line in judge_key(key, of_key)]
    facts = tuple(_facts(operations))
    if wrong:
        return Verdict(Outcome.FAIL, first_of(wrong), (*wrong[:_SHOWN], *facts))
    open_ends = [Verdict(Outcome.INCONCLUSIVE, reason) for reason in _missing(operations, by_key, events)]
    return merge([*open_ends, Verdict(Outcome.PASS, f"nothing lost, made up or stale: {facts[0]}", facts)])


def judge_key(key: Key, operations: Sequence[Operation]) -> Iterator[str]:
    """What is wrong with the reads of one key, one sentence for each problem."""
    writes = {op.version: op for op in operations if op.act is Act.WRITE}
    reads = [op for op in operations if op.act is not Act.WRITE and op.outcome is Ended.OK]
    for read in reads:
        yield from _made_up(key, read, writes)
    yield from _gone_back(key, [read for read in reads if read.version in {NOTHING, *writes}], writes)
    acknowledged = [op for op in writes.values() if op.outcome is Ended.OK]
    failed = [op for op in operations if op.act is Act.FINAL and op.outcome is Ended.FAIL]
    for read in failed if acknowledged else ():
        yield f"{_name(key)}: lost: {_reader(read)} could not read back acknowledged data: {read.note}"


def _made_up(key: Key, read: Operation, writes: Mapping[int, Operation]) -> Iterator[str]:
    if read.version == NOTHING:
        return
    if read.version == ALIEN:
        yield f"{_name(key)}: {_reader(read)} found data that nobody wrote: {read.note}"
    elif read.version not in writes:
        yield f"{_name(key)}: {_reader(read)} found version {read.version}, which nobody wrote"
    elif writes[read.version].outcome is Ended.FAIL:
        yield f"{_name(key)}: {_reader(read)} found version {read.version}, whose write was refused"
    elif _surely_before(read, writes[read.version]):
        yield f"{_name(key)}: {_reader(read)} found version {read.version} before it was written"


def _gone_back(key: Key, reads: Sequence[Operation], writes: Mapping[int, Operation]) -> Iterator[str]:
    """Reads that found a version although a later one was surely in effect when they began.

    A version is surely in effect once its write is acknowledged or a read has found it. It is later than another
    version if its write began after the other version was surely in effect.
    """
    sure = _surely(reads, writes)
    arrivals = sorted((at, version) for version, at in sure.items())
    position, newest, newest_began = 0, NOTHING, -math.inf
    for read in sorted(reads, key=lambda read: read.began_s - read.clock_error_s):
        while position < len(arrivals) and arrivals[position][0] < read.began_s - read.clock_error_s:
            version = arrivals[position][1]
            began = writes[version].began_s - writes[version].clock_error_s
            if began > newest_began:
                newest, newest_began = version, began
            position += 1
        if newest_began > sure.get(read.version, -math.inf):
            yield _older(key, read, writes[newest])


def _older(key: Key, read: Operation, newest: Operation) -> str:
    content = "nothing" if read.version == NOTHING else f"version {read.version}"
    how = "acknowledged" if newest.outcome is Ended.OK else "read before"
    what = "lost" if read.act is Act.FINAL else "stale read"
    return (
        f"{_name(key)}: {what}: {_reader(read)} found {content} although version {newest.version} "
        f"had been {how} (written from {newest.began_s:.3f} s on)"
    )


def _surely(reads: Iterable[Operation], writes: Mapping[int, Operation]) -> dict[int, float]:
    """version -> the latest time at which it took effect; infinite if it was neither acknowledged nor read."""
    sure = {
        version: _end(write) + write.clock_error_s if write.outcome is Ended.OK else math.inf
        for version, write in writes.items()
    }
    for read in reads:
        if read.version in sure:
            sure[read.version] = min(sure[read.version], _end(read) + read.clock_error_s)
    return sure


def _missing(
    operations: Sequence[Operation], by_key: Mapping[Key, Sequence[Operation]], events: Sequence[Event]
) -> Iterator[str]:
    if not any(op.act is Act.WRITE and op.outcome is Ended.OK for op in operations):
        yield "no write was acknowledged"
    for event in events:
        if event.kind == "load_cut_short":
            yield f"the client of {event.data['load']} on {event.data['client']} was cut short: {event.data['said']}"
    unread = [key for key, of_key in sorted(by_key.items()) if not _read_back(of_key)]
    if unread:
        keys = how_many(len(by_key), "key was", "keys were")
        yield f"{len(unread)} of {keys} not read back at the end, e.g. {_name(unread[0])}"
    unseen = [(key, write) for key, of_key in sorted(by_key.items()) for write in _unseen(of_key)]
    if unseen:
        key, write = unseen[0]
        yield (
            f"{how_many(len(unseen), 'acknowledged write was', 'acknowledged writes were')} overwritten before anybody "
            f"read it, e.g. version {write.version} of {_name(key)}"
        )


def _unseen(of_key: Sequence[Operation]) -> Iterator[Operation]:
    """Acknowledged writes that nobody read before the next write began: nobody can tell whether they were lost.

    The last write of a key is left to its final read. Writes that overlap do not count as the next write of each other.
    """
    writes = sorted((op for op in of_key if op.act is Act.WRITE), key=lambda op: op.began_s)
    reads = [op for op in of_key if op.act is not Act.WRITE and op.outcome is Ended.OK]
    versions, read_between = {read.version for read in reads}, _read_between(reads)
    began = [write.began_s for write in writes]
    for number, write in enumerate(writes):
        if write.outcome is not Ended.OK or write.version in versions:
            continue
        later = range(bisect_left(began, _end(write), number + 1), len(writes))
        following = next((writes[at] for at in later if writes[at].outcome is not Ended.FAIL), None)
        if following is not None and not read_between(write, following):
            yield write


def _read_between(reads: Sequence[Operation]) -> Callable[[Operation, Operation], bool]:
    """Whether a read surely began after one operation and ended before another; found without a look at each read."""
    ordered = sorted(reads, key=_earliest)
    began = [_earliest(read) for read in ordered]
    # At each place, the first end of that read and of all that began later.
    ends = [*accumulate((_latest(read) for read in reversed(ordered)), min)][::-1]

    def between(before: Operation, after: Operation) -> bool:
        place = bisect_right(began, _latest(before))
        return place < len(ends) and ends[place] < _earliest(after)

    return between


def _read_back(of_key: Sequence[Operation]) -> bool:
    written = [op.began_s for op in of_key if op.act is Act.WRITE]
    final = [op.began_s for op in of_key if op.act is Act.FINAL and op.outcome is Ended.OK]
    return not written or (bool(final) and max(final) > max(written))


def _facts(operations: Sequence[Operation]) -> Iterator[str]:
    writes = [op for op in operations if op.act is Act.WRITE]
    acknowledged = sum(1 for write in writes if write.outcome is Ended.OK)
    unknown = sum(1 for write in writes if write.outcome is Ended.UNKNOWN)
    finals = sum(1 for op in operations if op.act is Act.FINAL)
    reads = len(operations) - len(writes) - finals
    yield (
        f"{acknowledged} of {how_many(len(writes), 'write')} acknowledged, {unknown} of unknown outcome; "
        f"{how_many(reads, 'read')} meanwhile, {finals} at the end"
    )


def _name(key: Key) -> str:
    return f"{key[0]}.{key[1]}"


def _reader(read: Operation) -> str:
    return f"{read.client} at {read.began_s:.3f} s"


def _end(op: Operation) -> float:
    return math.inf if op.ended_s is None else op.ended_s


def _surely_before(earlier: Operation, later: Operation) -> bool:
    """Whether `earlier` had ended when `later` began, whatever the error of the clocks of their clients."""
    return _latest(earlier) < _earliest(later)


def _latest(op: Operation) -> float:
    """The latest time at which it may have ended."""
    return _end(op) + op.clock_error_s


def _earliest(op: Operation) -> float:
    """The earliest time at which it may have begun."""
    return op.began_s - op.clock_error_s
