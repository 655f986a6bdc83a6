"""Client operations as values, and their compact form in a history: columns of numbers instead of one line each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import Event

EVENT = "operations"
BATCH = 5000
"""Operations in one event: a line of some hundred kilobytes in the history."""

NOTHING = 0
"""Version of a key that was never written."""
ALIEN = -1
"""Version of content that was never written to the key: torn, foreign or damaged."""


class Act(StrEnum):
    """The kind of operation. FINAL: a read after the load has ended, to see what survived."""

    WRITE = "w"
    READ = "r"
    FINAL = "f"


class Ended(StrEnum):
    """OK: acknowledged. FAIL: refused, certainly without effect. UNKNOWN: it may take effect at any time, or never."""

    OK = "o"
    FAIL = "f"
    UNKNOWN = "u"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. Times: seconds on the history's clock; ended_s: None while it has not ended.

    version: the version that was written or read. clock_error_s: how far off the client's clock may be. run: counts
    the starts of the load, from 1.
    """

    load: str
    client: str
    worker: int
    act: Act
    key: int
    version: int
    began_s: float
    ended_s: float | None
    outcome: Ended
    note: str = ""
    clock_error_s: float = 0.0
    run: int = 1


def pack(operations: Sequence[Operation]) -> Iterator[dict[str, Any]]:
    """Data of `operations` events, one batch each. All operations must be of one load, one run of it and one client."""
    ordered = sorted(operations, key=lambda operation: operation.began_s)
    for start in range(0, len(ordered), BATCH):
        yield _pack(ordered[start : start + BATCH])


def _pack(batch: Sequence[Operation]) -> dict[str, Any]:
    began = [round(operation.began_s * 1e6) for operation in batch]
    return {
        "load": batch[0].load,
        "client": batch[0].client,
        "run": batch[0].run,
        "clock_error_s": batch[0].clock_error_s,
        "first_us": began[0],
        "after_us": [begin - before for before, begin in zip([began[0], *began], began, strict=False)],
        "took_us": [None if op.ended_s is None else round((op.ended_s - op.began_s) * 1e6) for op in batch],
        "acts": "".join(operation.act for operation in batch),
        "outcomes": "".join(operation.outcome for operation in batch),
        "workers": [operation.worker for operation in batch],
        "keys": [operation.key for operation in batch],
        "versions": [operation.version for operation in batch],
        "notes": {str(index): operation.note for index, operation in enumerate(batch) if operation.note},
    }


def unpack(data: Mapping[str, Any]) -> Iterator[Operation]:
    """The operations in one event's data; SpecError if its columns differ in length."""
    now = int(data["first_us"])
    columns = [data[name] for name in ("after_us", "took_us", "acts", "outcomes", "workers", "keys", "versions")]
    if len({len(column) for column in columns}) != 1:
        raise SpecError("the columns of an operations event differ in length", str([len(column) for column in columns]))
    for index, row in enumerate(zip(*columns, strict=True)):
        after, took_s, act, outcome, worker, key, version = row
        now += after
        yield Operation(
            load=data["load"],
            client=data["client"],
            worker=worker,
            act=Act(act),
            key=key,
            version=version,
            began_s=now / 1e6,
            ended_s=None if took_s is None else (now + took_s) / 1e6,
            outcome=Ended(outcome),
            note=data["notes"].get(str(index), ""),
            clock_error_s=data["clock_error_s"],
            run=data["run"],
        )


def operations_of(events: Sequence[Event]) -> list[Operation]:
    """Every operation in a history, in the order of their start."""
    operations = [operation for event in events if event.kind == EVENT for operation in unpack(event.data)]
    return sorted(operations, key=lambda operation: operation.began_s)
