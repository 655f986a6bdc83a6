"""Records the state before a tuning, on disk before anything changes, so that a killed run can still be reverted."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import LabBroken

SCHEMA = 1


@dataclass(frozen=True)
class Before:
    """The state of one place before a tuning.

    files: path -> content, None if there was no file; swaps: lines of /proc/swaps, None if swap is not changed;
    options: (section, key) -> value in the cluster's configuration database, None if it had none.
    """

    where: str
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    swaps: tuple[str, ...] | None = None
    options: Mapping[tuple[str, str], str | None] = field(default_factory=dict)

    def knobs(self) -> frozenset[str]:
        """Names of the settings it covers, to see whether two tunings change the same settings."""
        names = {*self.files, *(f"{section}/{key}" for section, key in self.options)}
        return frozenset(f"{self.where}:{name}" for name in names | ({"swap"} if self.swaps is not None else set()))


@dataclass(frozen=True)
class TuningRecord:
    """One applied tuning. number: its place in the order in which tunings of one target were applied."""

    tuning: str
    number: int
    before: tuple[Before, ...]

    def knobs(self) -> frozenset[str]:
        return frozenset(name for before in self.before for name in before.knobs())


class Records:
    """The records of one target, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[TuningRecord]:
        """All records, in the order in which the tunings were applied."""
        return sorted((_read(path) for path in self.folder.glob("*.json")), key=lambda record: record.number)

    def get(self, tuning: str) -> TuningRecord | None:
        return next((record for record in self.all() if record.tuning == tuning), None)

    def write(self, record: TuningRecord) -> None:
        """Write a record durably to disk. Call this before anything is changed."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = self.folder / f".{record.tuning}.{os.getpid()}"
        with scratch.open("w") as sink:
            json.dump(_to_json(record), sink, indent=2)
            sink.flush()
            os.fsync(sink.fileno())
        scratch.replace(self._path(record.tuning))
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def forget(self, tuning: str) -> None:
        self._path(tuning).unlink(missing_ok=True)

    def next_number(self) -> int:
        return max((record.number for record in self.all()), default=0) + 1

    def _path(self, tuning: str) -> Path:
        return self.folder / f"{tuning}.json"


def _to_json(record: TuningRecord) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "tuning": record.tuning,
        "number": record.number,
        "before": [
            {
                "where": before.where,
                "files": {
                    path: None if content is None else base64.b64encode(content).decode()
                    for path, content in before.files.items()
                },
                "swaps": None if before.swaps is None else list(before.swaps),
                "options": [[section, key, value] for (section, key), value in before.options.items()],
            }
            for before in record.before
        ],
    }


def _read(path: Path) -> TuningRecord:
    try:
        raw = json.loads(path.read_text())
        if raw["schema"] != SCHEMA:
            what = f"{path} was written by another cephlab version"
            raise LabBroken(what, f"schema {raw['schema']}, wanted {SCHEMA}")
        return TuningRecord(raw["tuning"], int(raw["number"]), tuple(_before(entry) for entry in raw["before"]))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise LabBroken(f"{path} is not a record of a tuning", str(error), "restore the settings by hand") from error


def _before(raw: Mapping[str, Any]) -> Before:
    return Before(
        where=raw["where"],
        files={path: None if content is None else base64.b64decode(content) for path, content in raw["files"].items()},
        swaps=None if raw["swaps"] is None else tuple(raw["swaps"]),
        options={(section, key): value for section, key, value in raw["options"]},
    )
