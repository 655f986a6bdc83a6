"""One directory per run: written while it goes on, sealed with checksums, read back only when it fits its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from lab.errors import SpecError
from lab.history import Event, History, load_events, whole_lines
from lab.redaction import without_secrets
from lab.runs import write_private
from lab.scenario import verdict_of
from lab.schemas import VERSION, validate

MANIFEST = "manifest.json"
VERDICTS = "verdicts.json"
HISTORY = "history.jsonl"
JUNIT = "junit.xml"
REPORT = "report.html"
SUMS = "SHA256SUMS"
_MODE = 0o644


class Ending(StrEnum):
    """How a scenario ended: a verdict, or why there is none."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIP = "skip"
    ERROR = "error"


JUDGED = (Ending.PASS, Ending.FAIL, Ending.INCONCLUSIVE)


@dataclass(frozen=True)
class Record:
    """One scenario of a run. began_s: on the history's clock; logs: folder below the archive, of failures only.

    quarantined: why its ending does not decide about the run, where it does not.
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


def deciding(records: Sequence[Record]) -> list[Record]:
    """Those whose endings say how the run ended."""
    return [record for record in records if record.quarantined is None]


def record_from_json(raw: Mapping[str, Any]) -> Record:
    """A record from its JSON values, which fit the schema."""
    return Record(**{**raw, "ending": Ending(raw["ending"]), "derivation": tuple(raw["derivation"])})


@dataclass
class Writer:
    """An archive while its run goes on: a killed run leaves what had happened by then."""

    directory: Path
    manifest: dict[str, Any]
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.directory.exists() and any(self.directory.iterdir()):
            raise SpecError(f"{self.directory} is not empty", "an archive gets a folder of its own", "name another")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.history = History(self.directory / HISTORY)
        (self.directory / HISTORY).touch()
        self.save()

    def save(self) -> None:
        """Write manifest and verdicts as they are now, without keys; LabBroken when the disk is full."""
        rows = [asdict(record) for record in self.records]
        for name, value in ((MANIFEST, self.manifest), (VERDICTS, {"verdicts": rows})):
            text = json.dumps({"schema": VERSION, **value}, indent=2, sort_keys=True) + "\n"
            write_private(self.directory / name, without_secrets(text.encode()), mode=_MODE)

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.save()

    def add_logs(self, scenario: str, logs: Mapping[str, bytes]) -> str | None:
        """Keep the logs of a scenario that did not pass; the folder's name below the archive, None without logs."""
        if not logs:
            return None
        folder = Path("logs") / file_name(scenario)
        (self.directory / folder).mkdir(parents=True, exist_ok=True)
        for name, content in logs.items():
            write_private(self.directory / folder / name, without_secrets(content), mode=_MODE)
        return str(folder)

    def seal(self, render: Callable[[Archive], str]) -> None:
        """Take keys out of every file, add the report, and write the checksums; LabBroken when the disk is full."""
        self.save()
        for path in files(self.directory):
            content = path.read_bytes()
            cleaned = without_secrets(content)
            if cleaned != content:
                write_private(path, cleaned, mode=_MODE)
        page = render(read_archive(self.directory))
        write_private(self.directory / REPORT, page.encode(), mode=_MODE)
        write_private(self.directory / SUMS, "".join(_sum_lines(self.directory)).encode(), mode=_MODE)


def file_name(scenario: str) -> str:
    """A scenario's name as a folder's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", scenario).strip("_")


def files(directory: Path) -> list[Path]:
    """Every file of an archive but its checksums, by name."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / SUMS)


def _sum_lines(directory: Path) -> Iterator[str]:
    for path in files(directory):
        yield f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(directory)}\n"


# Reading


@dataclass(frozen=True)
class Archive:
    """A run that can be judged again. lost: what it is known to lack, in words."""

    directory: Path
    manifest: Mapping[str, Any]
    records: tuple[Record, ...]
    events: tuple[Event, ...]
    lost: tuple[str, ...] = ()

    def of(self, scenario: str) -> tuple[Event, ...]:
        """One scenario's events."""
        return tuple(event for event in self.events if event.scenario == scenario)


def read_archive(directory: Path) -> Archive:
    """Read and validate; SpecError in one sentence when it is no archive, or of a newer schema."""
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
    return Archive(
        directory=directory,
        manifest=manifest,
        records=tuple(record_from_json(raw) for raw in verdicts["verdicts"]),
        events=events,
        lost=lost,
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise SpecError(f"{path.parent} is not an archive", f"it has no {path.name}", "name a run's folder") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SpecError(f"{path} cannot be read", str(error)) from error
    if not isinstance(value, dict):
        raise SpecError(f"{path} is not a JSON object")
    return value


def _events(path: Path) -> tuple[tuple[Event, ...], tuple[str, ...]]:
    """The events, each of which fits the schema; and what is lost of them, in words."""
    try:
        lines, rest = whole_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read", str(error)) from error
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            raise SpecError(f"{path}:{number} is not JSON", str(error), "was the file edited?") from error
        validate("event", value, f"{path}:{number}")
    cut = f"{path.name} ends within line {len(lines) + 1}: the event that was being written is lost"
    return load_events(path), (cut,) if rest else ()


def altered(directory: Path) -> list[str]:
    """What does not fit the checksums, in words: changed, missing and added files."""
    try:
        lines = (directory / SUMS).read_text().splitlines()
    except FileNotFoundError:
        return [f"{SUMS} is missing: the run was not sealed"]
    sums = {name: value for value, _, name in (line.partition("  ") for line in lines)}
    present = {str(path.relative_to(directory)): path for path in files(directory)}
    found = [f"{name} is missing" for name in sorted(sums.keys() - present.keys())]
    found += [f"{name} was added" for name in sorted(present.keys() - sums.keys())]
    for name in sorted(sums.keys() & present.keys()):
        if sha256(present[name].read_bytes()).hexdigest() != sums[name]:
            found.append(f"{name} was altered")
    return found


def replace_report(directory: Path, page: str) -> None:
    """Put a newly rendered report into an archive, and its checksum with it; the other checksums stay."""
    write_private(directory / REPORT, page.encode(), mode=_MODE)
    line = f"{sha256(page.encode()).hexdigest()}  {REPORT}"
    sums = directory / SUMS
    if sums.exists():
        kept = [old for old in sums.read_text().splitlines() if old.partition("  ")[2] != REPORT]
        text = "\n".join(sorted([*kept, line], key=lambda one: one.partition("  ")[2])) + "\n"
        write_private(sums, text.encode(), mode=_MODE)


# Judging again


@dataclass(frozen=True)
class Judged:
    """One scenario judged again. now is None where nothing was judged: skips, and trouble of the lab."""

    scenario: str
    stored: Ending
    now: Ending | None
    reason: str
    derivation: tuple[str, ...] = ()
    quarantined: str | None = None

    @property
    def differs(self) -> bool:
        return self.now is not None and self.now is not self.stored


def judge(archive: Archive) -> list[Judged]:
    """Today's checks over yesterday's history."""
    return [_judge(archive, record) for record in archive.records]


def _judge(archive: Archive, record: Record) -> Judged:
    if record.ending not in JUDGED:
        return Judged(record.scenario, record.ending, None, record.reason, quarantined=record.quarantined)
    verdict = verdict_of(archive.of(record.scenario))
    now = Ending(verdict.outcome.value)
    return Judged(record.scenario, record.ending, now, verdict.reason, verdict.derivation, record.quarantined)


def exit_code(endings: Sequence[Ending]) -> int:
    """0 pass, 1 fail, 3 the lab is broken, 6 inconclusive; a failure is worse than doubt about others.

    Where nothing passed nothing was shown: that is inconclusive too.
    """
    for ending, code in ((Ending.FAIL, 1), (Ending.ERROR, 3), (Ending.INCONCLUSIVE, 6)):
        if ending in endings:
            return code
    return 0 if Ending.PASS in endings else 6
