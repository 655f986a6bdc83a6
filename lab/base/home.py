"""Where cephlab keeps everything: one folder, which CEPHLAB_HOME moves."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from lab.errors import SpecError

HOME_VARIABLE = "CEPHLAB_HOME"


@dataclass(frozen=True)
class Home:
    """The folder and its parts: `images` (cache), `runs` (live clusters), `archive` (results), `demands` (costs) and
    `profiles` (machines).
    """

    path: Path

    @property
    def images(self) -> Path:
        return self.path / "images"

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

    def ensure(self) -> Home:
        """Make the folder; SpecError when it cannot be written."""
        try:
            for part in (self.images, self.runs, self.archive):
                part.mkdir(parents=True, exist_ok=True)
                probe = part / f".probe-{os.getpid()}"
                probe.write_bytes(b"probe")
                probe.unlink()
        except OSError as error:
            raise SpecError(
                f"the cache folder {self.path} cannot be written",
                str(error),
                f"set {HOME_VARIABLE} to a folder of yours on a disk with room",
            ) from error
        return self

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free


def default_home() -> Home:
    """CEPHLAB_HOME where set, else the user's cache folder."""
    chosen = os.environ.get(HOME_VARIABLE)
    return Home(Path(chosen).expanduser().absolute()) if chosen else standard_home()


def standard_home() -> Home:
    """The one in the user's cache folder, whatever the environment says."""
    return Home(Path(platformdirs.user_cache_dir("cephlab")).absolute())


def require_space(home: Home, needed_bytes: int, purpose: str) -> None:
    """Refuse before starting when the folder's disk lacks room."""
    free = home.free_bytes()
    if free < needed_bytes:
        raise SpecError(
            f"too little disk space for {purpose}",
            f"needed {needed_bytes / 1e9:.1f} GB in {home.path}, free {free / 1e9:.1f} GB",
            f"free some space (`cephlab prune`, `cephlab image rm`) or set {HOME_VARIABLE} to a larger disk",
        )
