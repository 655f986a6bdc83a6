"""Runs on disk: their names and owners, and which of them a killed process left behind."""

from __future__ import annotations

import json
import os
import pwd
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
from cephlab.lab.base.births import birth_of
from cephlab.lab.base.errors import LabBroken, SpecError, is_full, unwritable
from cephlab.lab.base.home import Home
from cephlab.lab.base.nearest import did_you_mean

RUN_VARIABLE = "CEPHLAB_RUN"
"""Environment variable that marks every process of a run, so that a killed run is found again."""

HOME_MARK = "CEPHLAB_RUN_HOME"
"""Environment variable with the home of the run, because two homes may have runs of the same name."""

LABEL = "cephlab.run"
"""Label on every container, network, volume and instance of a run."""

_CLAIM_S = 5.0
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


class RunId(str):
    """A run's id, which becomes part of paths. SpecError for a text that is not a valid id."""

    __slots__ = ()

    def __new__(cls, text: str) -> RunId:
        if not _NAME.fullmatch(text):
            raise SpecError(
                f"{text!r} is not a valid name for a cluster",
                "wanted: 1 to 31 of the characters a-z, 0-9 and -, starting with a letter or digit",
                "choose another --name",
            )
        return super().__new__(cls, text)


def run_ids(texts: Iterable[str]) -> frozenset[RunId]:
    """The texts that are valid ids. The others are ignored: anybody can write environments, labels and links."""
    return frozenset(RunId(text) for text in texts if _NAME.fullmatch(text))


def ours(path: Path, kind: Callable[[int], bool]) -> bool:
    """Whether a path is of a kind, e.g. stat.S_ISDIR, and belongs to this user. Links are not followed."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return kind(status.st_mode) and status.st_uid == os.geteuid()


def belongs(path: Path) -> str:
    """What a path in the folder of runs is, or whose it is, in words."""
    if path.is_symlink():
        return f"a link to {path.readlink()}"
    number = path.lstat().st_uid
    try:
        return f"of user {pwd.getpwuid(number).pw_name}" if number != os.geteuid() else "not a run"
    except KeyError:
        return f"of user {number}"


def taken(path: Path, wanted: str) -> LabBroken:
    """The error for a path that is not this user's, or not of the right kind. wanted: what should be there."""
    try:
        status = path.lstat()
        present = f"{stat.filemode(status.st_mode)} of user {status.st_uid}"
    except OSError as error:
        present = str(error)
    if path.is_symlink():
        present += f", to {path.readlink()}"
    return LabBroken(f"{path} is taken", f"got: {present}; wanted: {wanted}", f"check it, then remove it: {path}")


@dataclass(frozen=True)
class Run:
    """A run. Its id is on everything that it creates. directory: state, disks and logs, mode 0700."""

    id: RunId
    directory: Path

    def __post_init__(self) -> None:
        RunId(self.id)

    @property
    def home(self) -> Home:
        return Home(self.directory.parent.parent)

    @property
    def _owner_file(self) -> Path:
        return self.directory / "owner.json"

    @property
    def state_file(self) -> Path:
        return self.directory / "cluster.json"

    def owner(self) -> dict[str, Any]:
        """{pid, birth, kept, provider, at}; at: seconds since the epoch. Empty if the run died before its claim."""
        try:
            return dict(json.loads(self._owner_file.read_text()))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def claim(self, *, provider: str, kept: bool = False) -> None:
        """Make this process the run's owner. A kept run outlives it until `down`."""
        us = {"pid": os.getpid(), "birth": birth_of(os.getpid())}
        write_json(self._owner_file, {**us, "kept": kept, "provider": provider, "at": time.time()})

    @property
    def kept(self) -> bool:
        return bool(self.owner().get("kept"))

    def abandoned(self) -> bool:
        """Whether the run is not kept and its owner is gone, so that nobody will clean it up."""
        owner = self.owner()
        if owner.get("kept"):
            return False
        if not owner:
            # Another process may just have made the directory and not claimed it yet.
            return not self.directory.exists() or time.time() - self.directory.stat().st_mtime > _CLAIM_S
        return not process.recall(owner).alive()


def _taken(run: Run) -> SpecError:
    remedy = f"choose another --name, or remove it: cephlab down {run.id}"
    return SpecError(f"a cluster called {str(run.id)!r} already exists", str(run.directory), remedy)


class Runs:
    """The runs below one home."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def unused(self, name: str) -> Run:
        """A run that does not exist yet; SpecError if the name is taken or invalid."""
        run = Run(RunId(name), self.home.runs / name)
        if run.directory.exists():
            raise _taken(run)
        return run

    def create(self, provider: str, name: str | None = None) -> Run:
        """Make a run's directory; SpecError if the name is taken or invalid."""
        run = self.unused(name or f"r{secrets.token_hex(3)}")
        self.home.ensure()
        try:
            run.directory.mkdir(mode=0o700)
        except FileExistsError:
            raise _taken(run) from None
        run.claim(provider=provider)
        return run

    def all(self) -> Iterator[Run]:
        """Every run of this user on disk, by name."""
        for directory in self._folders():
            if ours(directory, stat.S_ISDIR) and _NAME.fullmatch(directory.name):
                yield Run(RunId(directory.name), directory)

    def others(self) -> list[Path]:
        """Folders and links in the folder of runs that are not runs of this user. cephlab never touches them."""
        known = {run.directory for run in self.all()}
        return [directory for directory in self._folders() if directory not in known]

    def _folders(self) -> list[Path]:
        self.home.refuse_unfit()
        paths = sorted(self.home.runs.iterdir()) if self.home.runs.is_dir() else []
        return [path for path in paths if path.is_symlink() or path.is_dir()]

    def get(self, name: str) -> Run:
        """The run of that name; SpecError lists the runs that exist, or says which other user owns it."""
        for run in self.all():
            if run.id == name:
                return run
        for path in self.others():
            if path.name == name:
                what = f"{name} is {belongs(path)}"
                raise SpecError(what, str(path), "cephlab uses only what is a run of this user: see `cephlab ls`")
        known = [run.id for run in self.all()]
        hint = did_you_mean(name, known, "name one of these" if known else "`cephlab up` raises one")
        raise SpecError(f"there is no cluster called {name!r}", f"clusters: {', '.join(known) or 'none'}", hint)

    def forget(self, run: Run) -> None:
        """Remove a run's directory, the last step of its clean-up."""
        if run.directory in self.others():
            raise LabBroken(f"{run.directory} is not a run of this user", "it is another user's, or a link")
        errors = remove_tree(run.directory)
        if errors:
            raise LabBroken(f"{run.directory} could not be removed", "\n".join(errors))


def remove_tree(directory: Path) -> list[str]:
    """Remove a directory with its content. Returns what could not be removed, in words."""
    errors: list[str] = []

    def note(_function: object, path: str, raised: tuple[type, BaseException, object]) -> None:
        if not isinstance(raised[1], FileNotFoundError):  # something else may remove files meanwhile
            errors.append(f"{path}: {raised[1]}")

    shutil.rmtree(directory, onerror=note)
    return errors


def make_empty(directory: Path, what: str) -> None:
    """Make a folder that the user named. SpecError if it is not empty or cannot be made, LabBroken if the disk is full.

    what: what the folder is for, as in `the folder of an archive`.
    """
    try:
        refuse_used(directory, what)
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_full(error):
            raise unwritable(directory, error) from error
        raise SpecError(f"{directory} cannot be {what}", error.strerror or str(error), "name another folder") from error


def refuse_used(directory: Path, what: str) -> None:
    """SpecError if a folder that the user named is not empty, or is a file. what: see `make_empty`."""
    if directory.exists() and not directory.is_dir():
        raise SpecError(f"{directory} cannot be {what}", "it is a file", "name another folder")
    if directory.exists() and any(directory.iterdir()):
        raise SpecError(f"{directory} is not empty", f"{what} must be new", "name another folder")


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file in one step. Nobody sees a partial file, and it has its mode from the start.

    LabBroken names a file that cannot be written.
    """
    # Threads of one process may save at once, so each has its own scratch file.
    scratch = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        scratch.unlink(missing_ok=True)  # left by a killed process that had this one's id
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
