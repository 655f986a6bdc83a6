"""External commands for building images, behind an interface that tests can replace."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cephlab.lab.base import process
from cephlab.lab.base.errors import NotInstalled
from cephlab.lab.base.process import Result

# On Debian these are not in the PATH of an ordinary user, but mke2fs is there.
_SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")

BUILD_VARIABLE = "CEPHLAB_BUILD"
"""Marks the processes of a build with its scratch folder, so that those of a killed build can be found."""

_CALL_S = 1800.0

# Packages of programs that have another name than their package.
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
        check: bool = True,
    ) -> Result:
        """See cephlab.lab.base.process.run."""
        ...


class SystemTools:
    """The programs of this machine."""

    def locate(self, program: str) -> str | None:
        return shutil.which(program) or shutil.which(program, path=os.pathsep.join(_SYSTEM_FOLDERS))

    run = staticmethod(process.run)


def call(tools: Tools, scratch: Path, program: str, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
    """Run a program of a build to its end. scratch: folder of the build, by which its orphans are found."""
    marked = {"LC_ALL": "C", BUILD_VARIABLE: str(scratch), **(env or {})}
    return tools.run([require(tools, program), *arguments], timeout_s=_CALL_S, env=marked)


def require(tools: Tools, program: str) -> str:
    """Path of a program; NotInstalled names the package that contains it."""
    require_all(tools, (program,))
    return str(tools.locate(program))


def require_all(tools: Tools, programs: Iterable[str]) -> None:
    """NotInstalled names all missing programs and the packages that contain them."""
    lacking = missing(tools, programs)
    if lacking:
        raise NotInstalled(lacking, "needed to build and export images")


def missing(tools: Tools, programs: Iterable[str]) -> dict[str, str]:
    """Missing programs -> the packages that contain them."""
    return {program: _PACKAGES.get(program, program) for program in programs if tools.locate(program) is None}
