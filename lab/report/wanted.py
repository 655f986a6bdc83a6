"""What was wanted, predicted and measured: the rows of a requirement, as scenarios record and reports show them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cephlab.lab.archive.archive import Archive, Record
from cephlab.lab.history.history import Recorder

KIND = "requirement"
Row = tuple[str, str, str, str, str]
"""Metric, required, predicted, measured, limited by; measured is empty where nothing was."""


def record_requirement(
    recorder: Recorder, *, what: str, profile: str, rows: Sequence[Row], enough: Sequence[str], demands: str
) -> None:
    """Note one requirement of a profile for the report's first page. enough: what would be, a line for each change."""
    keys = ("metric", "required", "predicted", "measured", "limited_by")
    lines = [dict(zip(keys, row, strict=True)) for row in rows]
    recorder.record(KIND, what=what, profile=profile, rows=lines, enough=list(enough), demands=demands)


@dataclass(frozen=True)
class Wanted:
    """One requirement as shown, with how its scenario ended."""

    record: Record
    data: Mapping[str, Any]


def wanted_of(archive: Archive) -> Iterator[Wanted]:
    """The requirements of a run, in its order."""
    for record in archive.records:
        for event in archive.of(record.scenario):
            if event.kind == KIND:
                yield Wanted(record, event.data)
