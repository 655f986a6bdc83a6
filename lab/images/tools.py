"""The external commands of image building, behind one seam that tests can replace."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cephlab.lab.base import process
from cephlab.lab.base.errors import NotInstalled
from cephlab.lab.base.process import Result

# An ordinary user's PATH lacks these on Debian, and mke2fs lives there.
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")

BUILD_VARIABLE = "CEPHLAB_BUILD"
"""Marks the processes of a build with its scratch folder, so that those of a killed build can be found."""

_CALL_S = 1800.0

# Of programs whose package has another name.
_PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "debugfs": "e2fsprogs",
    "depmod": "kmod",
    "ip": "iproute2",
    "mcopy": "mtools",
    "mformat": "mtools",
    "mke2fs": "e2fsprogs",
    "mmd": "mtools",
    "nsenter": "util-linux",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-img": "qemu-utils",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-x86_64-static": "qemu-user-static",
    "unshare": "util-linux",
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
        """As cephlab.lab.base.process.run."""
        ...


class SystemTools:
    """The real ones."""

    def locate(self, program: str) -> str | None:
        return shutil.which(program) or shutil.which(program, path=os.pathsep.join(_SYSTEM_FOLDERS))

    run = staticmethod(process.run)


def call(tools: Tools, scratch: Path, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
    """Run a program of a build to its end. scratch: folder of the build, by which a killed one's programs are found."""
    marked = {"LC_ALL": "C", BUILD_VARIABLE: str(scratch), **(env or {})}
    return tools.run([require(tools, program), *arguments], timeout_s=_CALL_S, env=marked)


def require(tools: Tools, program: str) -> str:
    """Path of a program; NotInstalled names the package that carries it."""
    require_all(tools, (program,))
    return str(tools.locate(program))


def require_all(tools: Tools, programs: Iterable[str]) -> None:
    """NotInstalled names all that are missing and the packages that carry them."""
    lacking = missing(tools, programs)
    if lacking:
        raise NotInstalled(lacking, "building and exporting images needs it")


def missing(tools: Tools, programs: Iterable[str]) -> dict[str, str]:
    """Those of the programs that are not here, with the packages that carry them."""
    return {program: _PACKAGES.get(program, program) for program in programs if tools.locate(program) is None}
