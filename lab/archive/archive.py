"""The archive of a run: one directory with checksums, written by a gate and read by commands."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from cephlab.lab.archive.schemas import VERSION, WITH_SCHEMA, validate
from cephlab.lab.archive.signature import sign, signer
from cephlab.lab.archive.sums import MODE, SIGNATURE, SUMS, altered, files, read_sums, sums_now, write_sums
from cephlab.lab.base.births import is_alive
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import is_file, json_text, legible, parse_json, read_text
from cephlab.lab.base.redaction import without_secrets
from cephlab.lab.base.runs import make_empty, write_private
from cephlab.lab.checks import Verdict
from cephlab.lab.history.history import Event, History, current, load_events, whole_lines
from cephlab.lab.scenario.scenario import Blame, last_blame, verdict_of

MANIFEST = "manifest.json"
VERDICTS = "verdicts.json"
HISTORY = "history.jsonl"
JUNIT = "junit.xml"
REPORT = "report.html"
SERIES = "series"
STORE = ".tsdb.tar.gz"
"""Folder of an archive for the data of each cluster's Prometheus, and the ending of its file names."""
ARCHIVE_FOLDER = "the folder of an archive"
RUNNING = "running"
KILLED = "killed"
_RAN = ("began", "raised")


class Ending(StrEnum):
    """How a scenario ended: a verdict, or why there is none. In display order."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    INCONCLUSIVE = "inconclusive"
    SKIP = "skip"

    @property
    def word(self) -> str:
        """The word shown to users."""
        return _WORDS.get(self, self.value)


_WORDS = {Ending.PASS: "passed", Ending.FAIL: "failed", Ending.ERROR: "lab trouble", Ending.SKIP: "skipped"}
JUDGED = (Ending.PASS, Ending.FAIL, Ending.INCONCLUSIVE)


@dataclass(frozen=True)
class Record:
    """One scenario of a run. began_s: on the clock of the history; logs: folder below the archive, for failures only.

    quarantined: why its ending does not count for the run; None if it counts.
    """

    scenario: str
    suite: str
    ending: Ending
    reason: str
    derivation: tuple[str, ...] = ()
    goal: str = ""
    method: str = ""
    began_s: float = 0.0
    seconds: float = 0.0
    cluster: str | None = None
    logs: str | None = None
    quarantined: str | None = None


def state_of(manifest: Mapping[str, Any]) -> str:
    """The state of a run: as recorded, or killed if its process is gone. Older archives do not name their process."""
    state = str(manifest["state"])
    return KILLED if state == RUNNING and not is_alive(str(manifest.get("process", ""))) else state


def deciding(records: Sequence[Record]) -> list[Record]:
    """The records whose endings count for the run."""
    return [record for record in records if record.quarantined is None]


def counted(records: Sequence[Record]) -> dict[Ending, int]:
    """Number of scenarios for each ending that occurred."""
    counts = Counter(record.ending for record in records)
    return {ending: counts[ending] for ending in Ending if counts[ending]}


@dataclass
class ArchiveWriter:
    """An archive while its run is in progress: a killed run leaves everything up to that moment."""

    directory: Path
    manifest: dict[str, Any]
    records: list[Record] = field(default_factory=list)
    earlier: Archive | None = None
    """An interrupted run that this one resumes: its settled records are kept."""
    taken: int = field(default=0, init=False)
    """How many records come from that run."""

    def __post_init__(self) -> None:
        make_empty(self.directory, ARCHIVE_FOLDER)
        settled = self.earlier.settled if self.earlier is not None else ()
        names = {record.scenario for record in settled}
        events = self.earlier.events if self.earlier is not None else ()
        kept = [event for event in events if event.scenario in names]
        (self.directory / HISTORY).write_text("".join(f"{event.to_json()}\n" for event in kept))
        self.history = History(self.directory / HISTORY, earlier=kept)
        self.records, self.taken = [*settled, *self.records], len(settled)
        for number, record in enumerate(settled):
            if self.earlier is not None and record.logs is not None:
                folder = _logs_of(record.scenario)
                shutil.copytree(self.earlier.directory / record.logs, self.directory / folder)
                self.records[number] = replace(record, logs=str(folder))
        self.save()

    def save(self) -> None:
        """Write manifest and verdicts as they are now, without secrets; LabBroken if the disk is full."""
        rows = [asdict(record) for record in self.records]
        for name, value in ((MANIFEST, self.manifest), (VERDICTS, {"verdicts": rows})):
            text = json_text({"schema": VERSION, **value}, indent=2, sort_keys=True) + "\n"
            write_private(self.directory / name, without_secrets(text.encode()), mode=MODE)

    def cut_short(self, scenario: str) -> tuple[Event, ...]:
        """Events that the earlier run recorded of a scenario before it was interrupted."""
        return self.earlier.of(scenario) if self.earlier is not None and scenario in self.earlier.left else ()

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.save()

    def add_logs(self, scenario: str, logs: Mapping[str, bytes]) -> str | None:
        """Keep the logs of a scenario that did not pass. Returns their folder below the archive, None without logs."""
        if not logs:
            return None
        folder = _logs_of(scenario)
        (self.directory / folder).mkdir(parents=True, exist_ok=True)
        for name, content in logs.items():
            write_private(self.directory / folder / name, without_secrets(content), mode=MODE)
        return str(folder)

    def add_series(self, cluster: str, store: bytes) -> None:
        """Keep the Prometheus store of a cluster, in place of an earlier one. store: a gzipped tar file."""
        (self.directory / SERIES).mkdir(exist_ok=True)
        write_private(self.directory / SERIES / f"{file_name(cluster)}{STORE}", store, mode=MODE)

    def seal(self, render: Callable[[Archive], str]) -> None:
        """Remove secrets from every file, add the report, and write the checksums; LabBroken if the disk is full."""
        self.save()
        for path in files(self.directory):
            content = path.read_bytes()
            cleaned = without_secrets(content)
            if cleaned != content:
                write_private(path, cleaned, mode=MODE)
        page = render(_parse(self.directory))
        write_private(self.directory / REPORT, page.encode(), mode=MODE)
        write_sums(self.directory, sums_now(self.directory))


def _logs_of(scenario: str) -> Path:
    """The folder below an archive for the logs of a scenario."""
    return Path("logs") / file_name(scenario)


def file_name(scenario: str) -> str:
    """The name of a scenario as a folder name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", scenario).strip("_")


# Reading


@dataclass(frozen=True)
class Archive:
    """A run that can be judged again. lost: what is missing because the run was killed, in words.

    altered: signs that the archive was changed: a file that does not match its checksum, a verdict without events,
    events without a verdict, or no signature by an allowed signer.
    signer: who signed it; None if it has no valid signature or if none was required.
    """

    directory: Path
    manifest: Mapping[str, Any]
    records: tuple[Record, ...]
    events: tuple[Event, ...]
    lost: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    signer: str | None = None

    def of(self, scenario: str) -> tuple[Event, ...]:
        """The events of one scenario."""
        return tuple(self._of.get(scenario, ()))

    @cached_property
    def _of(self) -> Mapping[str, Sequence[Event]]:
        by_scenario: dict[str, list[Event]] = {}
        for event in self.events:
            by_scenario.setdefault(event.scenario, []).append(event)
        return by_scenario

    @cached_property
    def settled(self) -> tuple[Record, ...]:
        """The final records: all except those of scenarios that were interrupted."""
        return tuple(record for record in self.records if last_blame(self.of(record.scenario)) != Blame.INTERRUPTION)

    @cached_property
    def left(self) -> tuple[str, ...]:
        """Planned scenarios without a settled record: those that were interrupted, and those that never began."""
        settled = {record.scenario for record in self.settled}
        return tuple(name for name in self.manifest.get("planned", ()) if name not in settled)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Why its stored verdicts cannot be relied on: it was altered, or its history gives another verdict."""
        others = (again for again in judge(self) if again.differs and self.of(again.scenario))
        lines = (_other_ending(again.scenario, again.stored, again.now, again.reason) for again in others)
        return (*self.altered, *lines)


def read_archive(directory: Path, signers: Path | None = None) -> Archive:
    """Read an archive and check that its parts agree; SpecError if it is not an archive, or has a newer schema.

    signers: file that lists who may have signed it; without it, no signature is required.
    """
    with legible(directory):
        archive = _parse(directory)
    wrong = altered(directory)
    if archive.manifest["state"] == RUNNING and not (directory / SUMS).exists():
        # A killed run was never sealed, so missing checksums are no sign of a change.
        archive, wrong = replace(archive, lost=(*archive.lost, *wrong)), []
    who = signer(directory / SUMS, directory / SIGNATURE, signers) if signers else None
    if signers and who is None:
        wrong.append(f"{SIGNATURE} is not a signature of {SUMS} by anybody in {signers}")
    return replace(archive, altered=(*wrong, *archive.altered), signer=who)


def _parse(directory: Path) -> Archive:
    """Parse the files of an archive, each of which must match its schema; checksums are not checked."""
    manifest = _load(directory / MANIFEST)
    version = manifest.get("schema")
    if isinstance(version, int) and version > VERSION:
        raise SpecError(
            f"{directory} was written by a newer cephlab (archive schema {version}, this one reads up to {VERSION})",
            hint="update cephlab",
        )
    validate("manifest", manifest, str(directory / MANIFEST))
    verdicts = _load(directory / VERDICTS)
    validate("verdicts", verdicts, str(directory / VERDICTS))
    events, lost = _events(directory / HISTORY)
    records = tuple(
        Record(**{**raw, "ending": Ending(raw["ending"]), "derivation": tuple(raw["derivation"])})
        for raw in verdicts["verdicts"]
    )
    archive = Archive(directory, manifest, records, events)
    unjudged = unfinished(archive)
    if manifest["state"] == RUNNING and unjudged:
        lost += (f"{unjudged.pop()} was running when the run was killed: it has no verdict",)
    wrong = (*(f"{name} ran and has no verdict" for name in unjudged), *_without_history(archive))
    return replace(archive, lost=lost, altered=wrong)


def _load(path: Path) -> dict[str, Any]:
    if not is_file(path) and not path.is_symlink():
        hint = "give the folder of an archived run"
        raise SpecError(f"{path.parent} is not an archive", f"it has no {path.name}", hint)
    value = parse_json(read_text(path, most_bytes=None), path)
    if not isinstance(value, dict):
        raise SpecError(f"{path} is not a JSON object")
    return value


def _events(path: Path) -> tuple[tuple[Event, ...], tuple[str, ...]]:
    """The events, checked against their schemas, and what of them is lost, in words."""
    lines, rest = whole_lines(path)
    for number, line in enumerate(lines, 1):
        value = parse_json(line, f"{path}:{number}")
        validate("event", value, f"{path}:{number}")
        if value["kind"] in WITH_SCHEMA:
            validate(value["kind"], current(value["kind"], value["data"]), f"{path}:{number}")
    cut = f"{path.name} ends within line {len(lines) + 1}: the event that was being written is lost"
    return load_events(path), (cut,) if rest else ()


def unfinished(archive: Archive) -> list[str]:
    """Scenarios that ran according to the history but have no verdict, in the order in which they ran."""
    recorded = {record.scenario for record in archive.records}
    started = dict.fromkeys(event.scenario for event in archive.events if event.kind in _RAN)
    return [name for name in started if name not in recorded]


def _without_history(archive: Archive) -> Iterator[str]:
    """Stored endings that the history does not confirm: two for one scenario, no events, or another ending."""
    for name, count in Counter(record.scenario for record in archive.records).items():
        if count > 1:
            yield f"{name} has {count} verdicts"
    for record in archive.records:
        if not (events := archive.of(record.scenario)):
            yield f"{record.scenario} is recorded as {record.ending} and has no events"
        elif record.ending not in JUDGED:
            now, verdict = judged(events)
            if now is not record.ending:
                yield _other_ending(record.scenario, record.ending, now, verdict.reason)


def _other_ending(scenario: str, stored: Ending, now: Ending | None, reason: str) -> str:
    return f"{scenario} is recorded as {stored}, its history says {now}: {reason}"


def replace_report(directory: Path, page: str) -> None:
    """Put a newly rendered report and its checksum into an archive; the other checksums stay.

    SpecError if the checksums are signed.
    """
    if (directory / SIGNATURE).exists():
        raise SpecError(
            f"{directory} is signed",
            f"a new {REPORT} would change {SUMS}, and {SIGNATURE} would no longer match",
            "write the report elsewhere: --output FILE",
        )
    write_private(directory / REPORT, page.encode(), mode=MODE)
    if (directory / SUMS).exists():
        write_sums(directory, {**read_sums(directory), REPORT: sha256(page.encode()).hexdigest()})


def add_signature(directory: Path, key: Path) -> None:
    """Sign a sealed archive; SpecError if the key cannot sign."""
    write_private(directory / SIGNATURE, sign((directory / SUMS).read_bytes(), key), mode=MODE)


# Judging


_UNJUDGED: Mapping[str | None, Ending] = {Blame.LAB: Ending.ERROR, Blame.LACK: Ending.SKIP}


def judged(events: Sequence[Event]) -> tuple[Ending, Verdict]:
    """How one scenario ended and why, from its events alone. Both a run and the readers of its archive use this."""
    verdict = verdict_of(events)
    ending = Ending(verdict.outcome.value)
    return ending if ending is Ending.FAIL else _UNJUDGED.get(last_blame(events), ending), verdict


@dataclass(frozen=True)
class JudgedAgain:
    """One scenario judged again. now: None for a skip or trouble of the lab, which no check judges."""

    scenario: str
    stored: Ending
    now: Ending | None
    reason: str
    derivation: tuple[str, ...]
    quarantined: str | None

    @property
    def differs(self) -> bool:
        return self.now is not None and self.now is not self.stored


def judge(archive: Archive) -> list[JudgedAgain]:
    """Judge the history of a run with the checks of this cephlab."""
    with legible(archive.directory):
        return [_judge(archive, record) for record in archive.records]


def _judge(archive: Archive, record: Record) -> JudgedAgain:
    if record.ending not in JUDGED:
        return JudgedAgain(record.scenario, record.ending, None, record.reason, (), record.quarantined)
    now, verdict = judged(archive.of(record.scenario))
    return JudgedAgain(record.scenario, record.ending, now, verdict.reason, verdict.derivation, record.quarantined)


def exit_code(endings: Sequence[Ending]) -> int:
    """0 pass, 1 fail, 3 trouble of the lab, 6 inconclusive; the first of 1, 3, 6 that occurred.

    A run in which nothing passed has shown nothing, so it is also inconclusive.
    """
    for ending, code in ((Ending.FAIL, 1), (Ending.ERROR, 3), (Ending.INCONCLUSIVE, 6)):
        if ending in endings:
            return code
    return 0 if Ending.PASS in endings else 6
