"""The folder in which cephlab keeps everything. CEPHLAB_HOME moves it."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from cephlab.lab.base.errors import SpecError, is_full, unwritable
from cephlab.lab.base.given import user_path

HOME_VARIABLE = "CEPHLAB_HOME"

_FORBIDDEN = re.compile(r"""[\s\x00-\x1f\x7f#;$\\"',:]""")


@dataclass(frozen=True)
class Home:
    """The folder and its parts: `images` (cache), `stores` (of clusters that were healthy), `runs` (live clusters),
    `archive` (results), `demands` (costs), `profiles` (machines) and `attempts.jsonl` (how scenarios ended).
    """

    path: Path

    @property
    def images(self) -> Path:
        return self.path / "images"

    @property
    def stores(self) -> Path:
        return self.path / "stores"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def archive(self) -> Path:
        return self.path / "archive"

    @property
    def demands(self) -> Path:
        return self.path / "demands"

    @property
    def profiles(self) -> Path:
        return self.path / "profiles"

    @property
    def attempts(self) -> Path:
        """Attempts of all scenarios that were given to `cephlab track`."""
        return self.path / "attempts.jsonl"

    @property
    def nearest(self) -> Path:
        """The home, or the nearest folder above it that exists."""
        return next(path for path in (self.path, *self.path.parents) if _exists(path))

    def refuse_unfit(self) -> None:
        """SpecError if the path of the home is not a folder, or if this user has no right to read it."""
        what = wanted = ""
        if not self.nearest.is_dir():
            what = "is not a folder"
            wanted = "which is not a folder; wanted: a folder, or a path where one can be made"
        elif not os.access(self.nearest, os.R_OK | os.X_OK if self.nearest == self.path else os.X_OK):
            what, wanted = "cannot be read", "which this user has no right to read; wanted: a folder of this user"
        if what:
            hint = f"set {HOME_VARIABLE} to a folder of yours on a disk with free space"
            raise SpecError(f"the home {self.path} {what}", f"got {self.nearest}, {wanted}", hint)

    def ensure(self) -> Home:
        """Make the folder; SpecError when it cannot be written, LabBroken when its disk is full."""
        for part in (self.images, self.runs, self.archive):
            probe = part / f".probe-{os.getpid()}"
            try:
                part.mkdir(parents=True, exist_ok=True)
                probe.write_bytes(b"probe")
            except OSError as error:
                if is_full(error):
                    raise unwritable(self.path, error) from error
                raise SpecError(
                    f"the cache folder {self.path} cannot be written",
                    f"{error.strerror}: {error.filename or probe}",
                    f"set {HOME_VARIABLE} to a folder of yours on a disk with free space",
                ) from error
            finally:
                with suppress(OSError):
                    probe.unlink()
        return self

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return False


def default_home() -> Home:
    """CEPHLAB_HOME if set, else the user's cache folder; SpecError when Ceph could not run from it."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen == "":
        hint = f"unset it for {standard_home().path}, or set it to a folder"
        raise SpecError(f"{HOME_VARIABLE} is empty", "wanted: a folder", hint)
    if chosen is not None:
        return home_at(chosen, HOME_VARIABLE)
    refuse_odd(str(standard_home().path), f"{HOME_VARIABLE}, by default,")
    return standard_home()


def home_at(named: str, source: str) -> Home:
    """The home in a given folder; SpecError when Ceph could not run from it. source: the variable or option."""
    refuse_odd(named, source)
    home = Home(user_path(named).absolute())
    refuse_odd(str(home.path), source)
    return home


def refuse_odd(path: str, source: str) -> None:
    """SpecError for a path that daemons cannot use. source: the variable or option that it comes from.

    `#`, `;`, `$`, backslash and newline have a meaning in ceph.conf. A comma separates keyrings there; a colon or a
    space separates the loader's libraries.
    """
    if not path or _FORBIDDEN.search(path):
        raise SpecError(
            f"{source} does not name a folder that Ceph can run from",
            f"got {path!r}, wanted a path without spaces, control characters or any of # ; $ \\ \" ' , :",
            f"set {source.partition(',')[0]} to another folder",
        )


def standard_home() -> Home:
    """The home in the user's cache folder. CEPHLAB_HOME does not matter."""
    return Home(Path(platformdirs.user_cache_dir("cephlab")).absolute())


def temporary_folder() -> Path:
    """The folder for temporary files; SpecError if this user can write to none that Python knows."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        tried = (error.strerror or "").rpartition(" in ")[2].strip("[]").replace("'", "")
        raise SpecError(
            "no folder for temporary files can be written",
            f"tried {tried}",
            "set TMPDIR to a folder of yours on a disk with free space",
        ) from error


def require_space(home: Home, needed_bytes: int, purpose: str) -> None:
    """SpecError when the disk of the home has too little free space."""
    free = home.free_bytes()
    if free < needed_bytes:
        raise SpecError(
            f"too little disk space for {purpose}",
            f"needed {needed_bytes / 1e9:.1f} GB in {home.path}, free {free / 1e9:.1f} GB",
            f"free some space (`cephlab prune`, `cephlab image rm`) or set {HOME_VARIABLE} to a larger disk",
        )
