"""Runs on disk: who owns one, what it is called, and which of them were left behind by a killed process."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken, SpecError, unwritable
from cephlab.lab.base.home import Home

RUN_VARIABLE = "CEPHLAB_RUN"
"""Environment variable that marks every process of a run, so that a killed run can be found again."""

HOME_MARK = "CEPHLAB_RUN_HOME"
"""Environment variable with the home of the run, because two homes may each have a run of the same name."""

LABEL = "cephlab.run"
"""Label on every container, network, volume and instance of a run."""

_CLAIM_S = 5.0
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


class RunId(str):
    """A run's id, which becomes part of paths; SpecError for every text that cannot be one."""

    __slots__ = ()

    def __new__(cls, text: str) -> RunId:
        if not _NAME.fullmatch(text):
            raise SpecError(
                f"{text!r} cannot name a cluster",
                "wanted: 1 to 31 of a-z, 0-9 and -, beginning with a letter or digit",
                "choose another --name",
            )
        return super().__new__(cls, text)


def run_ids(texts: Iterable[str]) -> frozenset[RunId]:
    """Those that can be ids. Environments, labels and links are written by anybody: what cannot is not ours."""
    return frozenset(RunId(text) for text in texts if _NAME.fullmatch(text))


def ours(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether a path itself is of a kind, such as stat.S_ISDIR, and this user's. No link is followed."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return kind(status.st_mode) and status.st_uid == os.geteuid()


def taken(path: Path, wanted: str) -> LabBroken:
    """What to raise when somebody else's thing is where this user's should be. wanted: what that is."""
    try:
        status = path.lstat()
        found = f"{stat.filemode(status.st_mode)} of user {status.st_uid}"
    except OSError as error:
        found = str(error)
    if path.is_symlink():
        found += f", to {path.readlink()}"
    return LabBroken(f"{path} is taken", f"got: {found}; wanted: {wanted}", f"look at it, and remove it: {path}")


@dataclass(frozen=True)
class Run:
    """One run: its id is on everything that it creates. directory: state, disks and logs, mode 0700."""

    id: RunId
    directory: Path

    def __post_init__(self) -> None:
        RunId(self.id)

    @property
    def home(self) -> Home:
        """The home that the run is in."""
        return Home(self.directory.parent.parent)

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
            owner: dict[str, Any] = json.loads(self._owner_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return owner

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
        run_id = RunId(name or f"r{secrets.token_hex(3)}")
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
        """Every run of this user on disk, by name."""
        for directory in self._folders():
            if ours(directory, stat.S_ISDIR):
                for run_id in run_ids([directory.name]):
                    yield Run(run_id, directory)

    def others(self) -> list[Path]:
        """Folders among the runs, and links to some, that are no runs of this user. Nothing ever touches them."""
        known = {run.directory for run in self.all()}
        return [directory for directory in self._folders() if directory not in known]

    def _folders(self) -> list[Path]:
        found = sorted(self.home.runs.iterdir()) if self.home.runs.is_dir() else []
        return [path for path in found if path.is_symlink() or path.is_dir()]

    def get(self, name: str) -> Run:
        """The run of that name; SpecError lists those that exist."""
        for run in self.all():
            if run.id == name:
                return run
        known = ", ".join(run.id for run in self.all()) or "none"
        raise SpecError(f"there is no cluster called {name!r}", f"clusters: {known}", "see `cephlab ls`")

    def forget(self, run: Run) -> None:
        """Remove a run's directory, the last step of its clean-up."""
        if run.directory in self.others():
            raise LabBroken(f"{run.directory} is no run of this user", "it is another user's, or a link")
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
