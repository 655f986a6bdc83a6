"""Finds new error lines in daemon logs and checks them against an allow-list, in which each pattern has a reason."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field, field_validator

from cephlab.lab.base.alarms import alarms
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.specfile import TomlTable, load_model

_LINE = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+[+-]\d{4} [0-9a-f]+ +(-?\d+) (.*)$")
_CLUSTER_LOG = re.compile(r"log_channel\((?:cluster|audit)\) log \[(ERR|WRN|SEC)\]")
_EMULATOR = re.compile(r"^qemu: ")
_HOLE = re.compile(r"\0+")
"""What a file system leaves in a file that had grown if power fails before the text reaches the disk."""
_GRAVE = re.compile(
    r"_verify_csum bad|had (suicide )?timed out after|bad (data )?(crc|checksum|magic|header|digest)"
    r"|(crc|checksum|digest|hash) mismatch|[Cc]orrupt(ed|ion)\b|FAILED (ceph_)?assert|Caught signal"
)
"""Text that is serious at any log level."""


@dataclass(frozen=True)
class Complaint:
    """One line that says something is wrong.

    level: `error` (derr, the emulator, an alarm), `grave` (logged at another level), `ERR`, `WRN` or `SEC` (cluster
    log), `output` (printed but not logged), `tool` (printed by a command).
    """

    daemon: str
    level: str
    text: str


class When(StrEnum):
    """When a pattern counts: always, or only after the scenario itself stopped or killed a daemon."""

    ALWAYS = "always"
    AFTER_STOP = "after-stop"


class Allowed(TomlTable):
    """One pattern of the allow-list. pattern: a regular expression searched in the line; reason: why it is harmless."""

    pattern: Annotated[str, Field(min_length=4)]
    reason: Annotated[str, Field(min_length=10)]
    daemons: tuple[str, ...] = ()
    when: When = When.ALWAYS

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"a regular expression ({error})") from error
        return value

    def covers(self, complaint: Complaint, *, stopped: bool) -> bool:
        """stopped: whether the scenario stopped, killed or restarted a daemon."""
        if self.when is When.AFTER_STOP and not stopped:
            return False
        if self.daemons and complaint.daemon.partition(".")[0] not in self.daemons:
            return False
        return re.search(self.pattern, complaint.text) is not None


class _AllowList(TomlTable):
    line: tuple[Allowed, ...] = ()


def read_allowed(path: Path) -> tuple[Allowed, ...]:
    """The allow-list of a TOML file (`[[line]]` tables); SpecError names the key that does not fit."""
    return load_model(path, _AllowList, what="an allow-list", hint="see its other entries").line


def expected_lines(expects: Mapping[str, str]) -> tuple[Allowed, ...]:
    """The lines that a scenario says it causes. expects: pattern -> reason."""
    return tuple(Allowed(pattern=pattern, reason=reason) for pattern, reason in expects.items())


def complaints(daemon: str, text: str) -> Iterator[Complaint]:
    """The lines of a daemon's log or output that report a problem. A hole in the file ends a line."""
    for line in _HOLE.sub("\n", text).splitlines():
        match = _LINE.match(line)
        if match is None:
            if _EMULATOR.match(line) or next(alarms(line), None):
                yield Complaint(daemon, "error", line)
            continue
        cluster = _CLUSTER_LOG.search(match[2])
        if cluster is not None:
            yield Complaint(daemon, cluster[1], match[2])
        elif match[1] == "-1":
            yield Complaint(daemon, "error", match[2])
        elif _GRAVE.search(match[2]):
            yield Complaint(daemon, "grave", match[2])


@dataclass(frozen=True)
class LogFile:
    """A file that a daemon writes to. output: whether it is the daemon's output and not its log."""

    daemon: str
    host: Host
    path: PurePosixPath
    output: bool

    @property
    def key(self) -> tuple[str, str]:
        return self.host.name, str(self.path)

    def read(self) -> bytes:
        if self.host.up() and self.host.exists(self.path):
            return self.host.read(self.path)
        return b""


@dataclass(frozen=True)
class LogMarks:
    """The logs at one moment. sizes: (node, path) -> bytes; places: the files."""

    sizes: Mapping[tuple[str, str], int]
    places: tuple[LogFile, ...] = ()


def mark(daemons: Iterable[Daemon]) -> LogMarks:
    """Remember where the logs end now."""
    places = tuple(_places(daemons))
    return LogMarks({place.key: len(place.read()) for place in places}, places)


def grown(before: LogMarks, now: LogMarks) -> dict[str, int]:
    """Bytes that each daemon wrote to its log and its output between two marks. A new file counts completely."""
    written: Counter[str] = Counter()
    for place in now.places:
        written[place.daemon] += max(0, now.sizes.get(place.key, 0) - before.sizes.get(place.key, 0))
    return dict(written)


def since(marks: LogMarks, daemons: Iterable[Daemon]) -> list[Complaint]:
    """Complaints written after the mark. A new log counts from its beginning.

    The old logs of daemons that have been moved or removed since the mark are read too.
    """
    places = {place.key: place for place in (*marks.places, *_places(daemons))}.values()
    texts = [(place, place.read()[marks.sizes.get(place.key, 0) :].decode(errors="replace")) for place in places]
    logged: dict[str, set[str]] = {}
    for place, text in texts:
        if not place.output:
            logged.setdefault(place.daemon, set()).update(text.splitlines())
    written: list[Complaint] = []
    for place, text in texts:
        written += (
            own_output(place.daemon, text, logged[place.daemon]) if place.output else complaints(place.daemon, text)
        )
    return written


def own_output(daemon: str, text: str, logged: Set[str]) -> Iterator[Complaint]:
    """The lines that a daemon printed but did not log, each as a complaint. logged: the lines of its log.

    A sound daemon prints almost nothing, and the allow-list has what it may print. A line with a hole is incomplete.
    """
    for line in text.splitlines():
        if not line.strip() or line in logged:
            continue
        complained = list(complaints(daemon, line))
        yield from complained or (
            [] if _LINE.match(line) or _HOLE.search(line) else [Complaint(daemon, "output", line)]
        )


def sort_out(
    seen: Sequence[Complaint], allowed: Sequence[Allowed], *, stopped: bool
) -> tuple[list[Complaint], dict[str, int]]:
    """(unexpected complaints, reason -> how many lines it covered)."""
    unexpected = []
    covered: Counter[str] = Counter()
    for complaint in seen:
        entry = next((pattern for pattern in allowed if pattern.covers(complaint, stopped=stopped)), None)
        if entry is None:
            unexpected.append(complaint)
        else:
            covered[entry.reason] += 1
    return unexpected, covered


def read_logs(daemons: Iterable[Daemon]) -> dict[str, bytes]:
    """The logs and outputs of all daemons, by file name. Files of hosts that are down are left out."""
    contents = {f"{place.host.name}-{place.path.name}": place.read() for place in _places(daemons)}
    return {name: content for name, content in contents.items() if content}


def _places(daemons: Iterable[Daemon]) -> Iterator[LogFile]:
    for daemon in daemons:
        yield LogFile(daemon.name, daemon.host, daemon.log, output=False)
        yield LogFile(daemon.name, daemon.host, daemon.output, output=True)
