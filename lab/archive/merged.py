"""Merges the archives of the lanes of a gate into one, in order of time: as files, or when a killed gate is read."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from shlex import quote
from stat import S_ISDIR
from typing import Any
from xml.etree import ElementTree

import psutil

from cephlab.lab.archive.archive import (
    HISTORY,
    JUNIT,
    KILLED,
    MANIFEST,
    REPORT,
    RUNNING,
    VERDICTS,
    Archive,
    ArchiveWriter,
    Record,
    judged,
    read_archive,
    state_of,
    unfinished,
)
from cephlab.lab.archive.sums import SUMS, files
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.runs import ours
from cephlab.lab.history.history import Event, History, Recorder
from cephlab.lab.scenario.scenario import Blame, record_raised

FOLDER_SUFFIX = ".lanes"
_MADE_ANEW = (MANIFEST, VERDICTS, HISTORY, JUNIT, REPORT, SUMS)
_LISTS = ("clusters", "kept", "trouble", "unexpected_skips")


@dataclass(frozen=True)
class Part:
    """An archive that becomes part of another. later_s: how much later its history began than the first history.

    machine: where its clusters ran, empty for this machine. running: a scenario that its lane began but did not end;
    it may be missing in the archive.
    """

    directory: Path
    later_s: float
    machine: str
    running: str | None = None


def merge(writer: ArchiveWriter, parts: Sequence[Part]) -> None:
    """Put the events, verdicts, files and lists of the parts into an archive that is not sealed yet.

    A scenario that was running in a lane when the lane was killed gets the ending "trouble of the lab".
    """
    archives = [(read_archive(part.directory), part.later_s) for part in parts]
    events, records = _on_one_clock(archives)
    (writer.directory / HISTORY).write_text("".join(event.to_json() + "\n" for event in events))
    # The writer began after the first lane, so its own clock would put what it adds before events that came earlier.
    writer.history = History(writer.directory / HISTORY, earlier=events)
    settled = {record.scenario for record in records}
    ended_with_lane = [name for archive, _ in archives for name in unfinished(archive)]
    ended_with_lane += [part.running for part in parts if part.running is not None]
    lost = [name for name in dict.fromkeys(ended_with_lane) if name not in settled]
    records += [_lost(writer.history.recorder(name)) for name in lost]
    writer.records = sorted(records, key=attrgetter("began_s"))
    for archive, _ in archives:
        _take_files(writer.directory, archive)
    _merge_junit(writer.directory / JUNIT, [archive.directory / JUNIT for archive, _ in archives], lost)
    manifests = [archive.manifest for archive, _ in archives]
    for part, manifest in zip(parts, manifests, strict=True):
        for facts in manifest["clusters"] if part.machine else ():
            facts["machine"] = part.machine
    writer.manifest |= {key: [entry for manifest in manifests for entry in manifest[key]] for key in _LISTS}


def _on_one_clock(archives: Sequence[tuple[Archive, float]]) -> tuple[list[Event], list[Record]]:
    """All events, in order of time, and all records. Each archive comes with how much later it began than the first."""
    events = [replace(event, at_s=event.at_s + later_s) for archive, later_s in archives for event in archive.events]
    events.sort(key=attrgetter("at_s"))
    records = [
        replace(record, began_s=round(record.began_s + later_s, 3))
        for archive, later_s in archives
        for record in archive.records
    ]
    return events, records


def _lost(recorder: Recorder) -> Record:
    error = LabBroken("the process that ran it ended unexpectedly", "it was killed, or memory ran out")
    record_raised(recorder, error, Blame.LAB, error.what)
    events, suite = recorder.events(), recorder.scenario.partition(".")[0]
    ending, verdict = judged(events)
    began_s = round(events[0].at_s, 3)
    return Record(recorder.scenario, suite, ending, verdict.reason, verdict.derivation, began_s=began_s)


def _take_files(directory: Path, archive: Archive) -> None:
    """Copy logs and other files that the run kept."""
    for path in files(archive.directory):
        name = path.relative_to(archive.directory)
        if str(name) not in _MADE_ANEW:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, directory / name)


def _merge_junit(path: Path, parts: Sequence[Path], lost: Sequence[str]) -> None:
    """Write one file with all suites, and an error for each lost scenario."""
    whole = ElementTree.Element("testsuites", name="cephlab")
    for part in parts:
        if part.exists():
            whole.extend(ElementTree.parse(part).getroot().iter("testsuite"))
    if lost:
        suite = ElementTree.SubElement(
            whole, "testsuite", name="lost", tests=str(len(lost)), errors=str(len(lost)), failures="0", skipped="0"
        )
        for name in lost:
            case = ElementTree.SubElement(suite, "testcase", classname="lost", name=name, time="0")
            ElementTree.SubElement(case, "error", message="the process that ran it ended unexpectedly")
    ElementTree.ElementTree(whole).write(path, encoding="utf-8", xml_declaration=True)


def begun(directory: Path) -> Mapping[str, Any]:
    """The manifest of a run that its lane has begun, without the schema number."""
    manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_text())
    del manifest["schema"]
    return manifest


# A gate that was killed before it merged them


def lanes_beside(directory: Path) -> Path:
    """The folder in which a gate of several processes keeps their archives, until its own has what they recorded."""
    return directory.with_name(directory.name + FOLDER_SUFFIX)


def unmerged(directory: Path) -> list[Path]:
    """The archives of the lanes of a killed gate, none for any other. A lane that recorded nothing has no manifest.

    directory: the archive that they would have become.
    """
    whole = directory.resolve()
    parts = sorted(path.parent for path in lanes_beside(whole).glob(f"*/{MANIFEST}"))
    return parts if parts and state_of(begun(whole)) == KILLED else []


def prune_unbegun(archives: Path, *, dry_run: bool = False) -> list[str]:
    """Remove what gates left that were killed while they collected; returns a line for each folder.

    That is an archive without any file, or a folder of lanes that recorded nothing. Its name ends with the number of
    the gate's process, which must be gone. dry_run: only list them.
    """
    lines = []
    for folder in sorted(archives.glob("*-*")):
        whole = folder.with_name(folder.name.removesuffix(FOLDER_SUFFIX))
        owner = whole.name.rpartition("-")[2]
        if not owner.isdecimal() or psutil.pid_exists(int(owner)) or not ours(folder, S_ISDIR):
            continue
        recorded = any(folder.iterdir())
        if folder != whole:
            recorded = (whole / MANIFEST).exists() or any(folder.glob(f"*/{MANIFEST}"))
        if not recorded:
            lines.append(f"{folder.name}, of a gate that was killed before it began")
            if not dry_run:
                shutil.rmtree(folder)
    return lines


def read_run(directory: Path, signers: Path | None = None) -> Archive:
    """As `read_archive`; of a killed gate of several processes, with what they recorded.

    While one of them still removes its cluster, its process is that of the run, which therefore counts as running.
    """
    archive = read_archive(directory, signers)
    lanes = [read_archive(path) for path in unmerged(directory)]
    if not lanes:
        return archive
    began = [datetime.fromisoformat(str(lane.manifest["started"])) for lane in lanes]
    later = [(start - min(began)).total_seconds() for start in began]
    events, records = _on_one_clock(list(zip(map(_from_beside, lanes), later, strict=True)))
    ending = [lane.manifest["process"] for lane in lanes if state_of(lane.manifest) == RUNNING]
    manifest = {
        **archive.manifest,
        **{key: [entry for lane in lanes for entry in lane.manifest[key]] for key in _LISTS},
        "process": next(iter(ending), archive.manifest["process"]),
    }
    return Archive(
        directory,
        manifest,
        tuple(sorted(records, key=attrgetter("began_s"))),
        tuple(events),
        lost=tuple(dict.fromkeys((*archive.lost, *(line for lane in lanes for line in lane.lost)))),
        # Without a signature wanted, the archive itself proves nothing: it may have been left half merged.
        altered=(
            *(archive.altered if signers else ()),
            *(f"{lane.directory}: {line}" for lane in lanes for line in lane.altered),
        ),
    )


def _from_beside(lane: Archive) -> Archive:
    """A lane, with the logs of its records named as its gate's archive finds them."""
    beside = Path("..", lane.directory.parent.name, lane.directory.name)
    records = (replace(record, logs=str(beside / record.logs)) if record.logs else record for record in lane.records)
    return replace(lane, records=tuple(records))


def read_whole(directory: Path) -> Archive:
    """A run whose verdicts can be relied on; SpecError for any other."""
    archive = read_run(directory)
    if archive.doubts:
        raise SpecError(
            f"the verdicts of {directory} cannot be relied on",
            "\n".join(archive.doubts),
            f"`cephlab judge {quote(str(directory))}` judges its history; docs/archive.md lists what is checked",
        )
    return archive
