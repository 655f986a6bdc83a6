"""What was required, predicted and measured: the rows of a requirement, as scenarios record and reports show them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cephlab.lab.archive.archive import Archive, Record
from cephlab.lab.history.history import Recorder

KIND = "requirement"
Row = tuple[str, str, str, str, str]
"""Metric, required, predicted, measured, limited by; measured is empty if nothing was measured."""


@dataclass(frozen=True)
class Shown:
    """One requirement of a profile, for the first page of the report.

    enough: changes that would be enough, a line each; demands: where they are from; doubts: what the prediction leaves
    out; measuring: what a measured figure rests on, or why existing machines were not measured.
    """

    what: str
    profile: str
    rows: Sequence[Row]
    enough: Sequence[str]
    demands: str
    doubts: Sequence[str] = ()
    measuring: Sequence[str] = ()


def record_requirement(recorder: Recorder, shown: Shown) -> None:
    """Record one requirement."""
    keys = ("metric", "required", "predicted", "measured", "limited_by")
    lines = [dict(zip(keys, row, strict=True)) for row in shown.rows]
    lists = {"rows": lines, "enough": list(shown.enough), "doubts": list(shown.doubts)}
    lists["measuring"] = list(shown.measuring)
    recorder.record(KIND, what=shown.what, profile=shown.profile, demands=shown.demands, **lists)


@dataclass(frozen=True)
class Wanted:
    """One requirement as shown, with how its scenario ended."""

    record: Record
    data: Mapping[str, Any]


def wanted_of(archive: Archive) -> Iterator[Wanted]:
    """The requirements of a run, in the order of the run."""
    for record in archive.records:
        for event in archive.of(record.scenario):
            if event.kind == KIND:
                yield Wanted(record, event.data)
