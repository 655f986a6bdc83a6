"""Runs on disk: who owns one, what it is called, and which of them were left behind by a killed process."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import process
from lab.errors import LabBroken, SpecError, unwritable
from lab.home import Home

RUN_VARIABLE = "CEPHLAB_RUN"
"""Environment variable that marks every process of a run, so that a killed run can be found again."""

HOME_MARK = "CEPHLAB_RUN_HOME"
"""Environment variable with the home of the run, because two homes may each have a run of the same name."""

LABEL = "cephlab.run"
"""Label on every container, network, volume and instance of a run."""

_CLAIM_S = 5.0
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Run:
    """One run: its id is on everything that it creates. directory: state, disks and logs, mode 0700."""

    id: str
    directory: Path

    @property
    def _owner_file(self) -> Path:
        return self.directory / "owner.json"

    @property
    def state_file(self) -> Path:
        return self.directory / "cluster.json"

    def owner(self) -> dict[str, Any]:
        """{pid, birth, kept, provider, at}; at: seconds since the epoch.

        Empty when the run died while it was being made.
        """
        try:
            found: dict[str, Any] = json.loads(self._owner_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found

    def claim(self, *, provider: str, kept: bool = False) -> None:
        """Say that this process owns the run; kept runs outlive it until `down`."""
        write_json(
            self._owner_file,
            {
                "pid": os.getpid(),
                "birth": process.birth_of(os.getpid()),
                "kept": kept,
                "provider": provider,
                "at": time.time(),
            },
        )

    @property
    def kept(self) -> bool:
        return bool(self.owner().get("kept"))

    def abandoned(self) -> bool:
        """Whether nobody will clean this run up: its owner is gone and it was not meant to stay."""
        owner = self.owner()
        if owner.get("kept"):
            return False
        if not owner:
            # Another process may be between making the directory and claiming it.
            return not self.directory.exists() or time.time() - self.directory.stat().st_mtime > _CLAIM_S
        return not process.recall(owner).alive()


class Runs:
    """The runs below one home."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def create(self, provider: str, name: str | None = None) -> Run:
        """Make a run's directory; SpecError when the name is taken or not a name."""
        run_id = name or f"r{secrets.token_hex(3)}"
        if not _NAME.fullmatch(run_id):
            raise SpecError(
                f"{run_id!r} cannot name a cluster",
                "wanted: 1 to 31 of a-z, 0-9 and -, beginning with a letter or digit",
                "choose another --name",
            )
        self.home.ensure()
        run = Run(run_id, self.home.runs / run_id)
        try:
            run.directory.mkdir(mode=0o700)
        except FileExistsError:
            raise SpecError(
                f"there is a cluster called {run_id!r} already",
                str(run.directory),
                f"choose another --name, or remove it: cephlab down {run_id}",
            ) from None
        run.claim(provider=provider)
        return run

    def all(self) -> Iterator[Run]:
        """Every run on disk, by name."""
        if self.home.runs.is_dir():
            for directory in sorted(self.home.runs.iterdir()):
                if directory.is_dir():
                    yield Run(directory.name, directory)

    def get(self, name: str) -> Run:
        """The run of that name; SpecError lists those that exist."""
        for run in self.all():
            if run.id == name:
                return run
        known = ", ".join(run.id for run in self.all()) or "none"
        raise SpecError(f"there is no cluster called {name!r}", f"clusters: {known}", "see `cephlab ls`")

    def forget(self, run: Run) -> None:
        """Remove a run's directory, the last step of its clean-up."""
        errors = remove_tree(run.directory)
        if errors:
            raise LabBroken(f"{run.directory} could not be removed", "\n".join(errors))


def remove_tree(directory: Path) -> list[str]:
    """Remove a directory with all that is in it, whatever goes away meanwhile; what could not be, in words."""
    errors: list[str] = []

    def note(_function: object, path: str, raised: tuple[type, BaseException, object]) -> None:
        if not isinstance(raised[1], FileNotFoundError):
            errors.append(f"{path}: {raised[1]}")

    shutil.rmtree(directory, onerror=note)
    return errors


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file in one step: nobody sees half of it, nor reads it while its mode is another, old or new.

    Raises LabBroken, naming the file, when it cannot be written.
    """
    # Threads of one process may save at once; each needs a scratch file of its own.
    scratch = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        scratch.unlink(missing_ok=True)  # of a process that was killed and had this one's id
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as sink:
            os.fchmod(descriptor, mode)  # which the umask may have narrowed
            sink.write(content)
        scratch.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        scratch.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any], *, mode: int = 0o600) -> None:
    """Replace a JSON file in one step; see `write_private`."""
    write_private(path, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode(), mode=mode)
