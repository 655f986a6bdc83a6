"""Files of another user, which tests cannot make without being root."""

import os
from pathlib import Path

import pytest


class Strangers:
    """Makes paths look like another user's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._paths: set[Path] = set()
        real = Path.lstat

        def lstat(path: Path) -> os.stat_result:
            status = real(path)
            theirs = status.st_uid + 1 if path in self._paths else status.st_uid
            return os.stat_result((*status[:4], theirs, *status[5:]))

        monkeypatch.setattr(Path, "lstat", lstat)

    def own(self, path: Path) -> Path:
        self._paths.add(path)
        return path
