"""Compiles the C sources in this folder for either architecture."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, Unavailable
from cephlab.lab.spec.arch import Arch, host_arch

AIO = "aio.c"
AIO_QUEUE = "aio_queue.h"
CRC_ZERO = "crc_zero.c"

SOURCES = Path(__file__).parent
_FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread")
# Only symbols that the source exports explicitly may replace those of a daemon.
_SHARED = ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-z,defs")
_COMPILE_TIMEOUT_S = 60.0


def build(arch: Arch, source: str, target: Path, *, defines: Sequence[str] = ()) -> None:
    """Compile one of the sources to `target`: a shared object if it ends in `.so`, else a program.

    defines: names for the preprocessor. The target appears only when complete.
    Raises Unavailable, with the names of the packages, if the compiler or its C library is missing;
    CommandFailed, with the message of the compiler, if it rejects the source.
    """
    compiler = shutil.which(_compiler(arch))
    if compiler is None:
        raise _missing(arch, f"{_compiler(arch)} is not on the PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    kind = _SHARED if target.suffix == ".so" else ()
    macros = [f"-D{name}" for name in defines]
    argv = [compiler, *_FLAGS, *kind, *macros, "-o", str(partial), str(SOURCES / source)]
    try:
        process.run(argv, timeout_s=_COMPILE_TIMEOUT_S)
        partial.replace(target)
    except CommandFailed as error:
        if lacks_library(error.stderr):
            raise _missing(arch, error.stderr) from error
        raise
    finally:
        partial.unlink(missing_ok=True)


def source_digest(directory: Path = SOURCES) -> str:
    """sha256 (hex) over flags, names and contents of the preloaded sources; if it changes, preloads are recompiled."""
    digest = hashlib.sha256(" ".join((*_FLAGS, *_SHARED)).encode())
    for name in (AIO, AIO_QUEUE, CRC_ZERO):
        content = (directory / name).read_bytes()
        digest.update(f"\n{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def packages(arch: Arch) -> tuple[str, ...]:
    """Debian packages needed to compile for `arch` on this machine."""
    if arch is host_arch():
        return ("gcc", "libc6-dev")
    return (f"gcc-{arch.triplet.replace('_', '-')}", f"libc6-dev-{arch.debian}-cross")


def lacks_library(stderr: str) -> bool:
    """Whether a compiler error is caused by a missing C library, not by the source."""
    lacks_header = "fatal error:" in stderr and "No such file or directory" in stderr
    return lacks_header or "ld: cannot find" in stderr


def _compiler(arch: Arch) -> str:
    return "gcc" if arch is host_arch() else f"{arch.triplet}-gcc"


def _missing(arch: Arch, detail: str) -> Unavailable:
    names = " ".join(packages(arch))
    return Unavailable(f"there is no working C compiler for {arch}", detail, f"install the packages {names}")
