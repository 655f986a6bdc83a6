"""The external commands of image building, behind one seam that tests can replace."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lab import process
from lab.errors import Unavailable
from lab.process import Result

# An ordinary user's PATH lacks these on Debian, and mke2fs lives there.
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")

_PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "bc": "bc",
    "bison": "bison",
    "debugfs": "e2fsprogs",
    "depmod": "kmod",
    "dumpe2fs": "e2fsprogs",
    "flex": "flex",
    "gcc": "gcc",
    "make": "make",
    "mcopy": "mtools",
    "mformat": "mtools",
    "mke2fs": "e2fsprogs",
    "mmd": "mtools",
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "tar": "tar",
    "x86_64-linux-gnu-gcc": "gcc-x86-64-linux-gnu",
    "xz": "xz-utils",
}


class Tools(Protocol):
    """Programs of this machine."""

    def locate(self, program: str) -> str | None:
        """Absolute path of a program, or None."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
    ) -> Result:
        """As lab.process.run."""
        ...


class SystemTools:
    """The real ones."""

    def locate(self, program: str) -> str | None:
        found = shutil.which(program)
        for folder in _SYSTEM_FOLDERS:
            found = found or shutil.which(program, path=folder)
        return found

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
    ) -> Result:
        return process.run(argv, timeout_s=timeout_s, env=env, cwd=cwd, check=check)


def require(tools: Tools, program: str) -> str:
    """Path of a program; Unavailable names the package that carries it."""
    found = tools.locate(program)
    if found is None:
        package = _PACKAGES[program]
        raise Unavailable(
            f"{program} is not installed",
            "building and exporting images needs it",
            f"on Debian and Ubuntu: sudo apt-get install {package}",
        )
    return found
