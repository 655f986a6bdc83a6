"""Starts programs of an image without changing the root: with the image's own loader, or with an emulator."""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from cephlab.lab.base.errors import LabBroken, NotInstalled, Unavailable
from cephlab.lab.base.process import Command
from cephlab.lab.spec.arch import Arch, host_arch

_SEARCH = ("usr/bin", "usr/sbin", "usr/local/bin")
_MAX_LINKS = 16
_WRAPPED = re.compile(r"uname|python3|fio|(ceph|rados|rbd|cephfs|crushtool|monmaptool|osdmaptool|mount\.ceph).*")

RESPAWNING = frozenset({"ceph-mgr", "ceph-mds"})
"""Programs that execute themselves again. A manager does when it becomes a standby or gets other modules."""

_RESPAWN = """trap : TERM INT HUP
for round in $(seq 100); do
  "$@"
  status=$?
  [ $status -eq 127 ] || exit $status
done
exit 127
"""
"""Starts its arguments again when they end with status 127.

A program that executes itself uses /proc/self/exe, which is the image's loader here. The loader takes the program's
first argument for a program and ends with status 127.
"""


def respawning(argv: Sequence[str]) -> tuple[str, ...]:
    """The command under a shell that starts it again after it tried to execute itself."""
    return ("/bin/sh", "-c", _RESPAWN, "cephlab-respawn", *argv)


@dataclass(frozen=True)
class Programs:
    """The programs below one image root of one architecture."""

    root: Path
    arch: Arch

    @property
    def emulated(self) -> bool:
        return self.arch is not host_arch()

    def command(self, argv: Sequence[str], *, preload: Sequence[PurePosixPath] = ()) -> Command:
        """Wrap argv so that it runs here; LabBroken when the image has no such program."""
        full = self._script(argv)
        return self._emulate(full, preload) if self.emulated else self._load(full, preload)

    def write_wrappers(self, directory: Path) -> None:
        """Make a directory with a small script for each program of Ceph, so that other programs can start them."""
        if directory.is_dir():
            return
        directory.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=directory.parent))
        for folder in _SEARCH:
            for program in sorted((self.root / folder).glob("*")):
                target = scratch / program.name
                if _WRAPPED.fullmatch(program.name) and not target.exists():
                    command = self.command([program.name])
                    python = (f"{key}={value}" for key, value in command.env.items() if key.startswith("PYTHON"))
                    target.write_text(f'#!/bin/sh\nexec {shlex.join(["env", *python, *command.argv])} "$@"\n')
                    target.chmod(0o755)
        scratch.chmod(0o755)
        try:
            scratch.rename(directory)
        except OSError:  # another thread was faster
            shutil.rmtree(scratch)

    def _script(self, argv: Sequence[str]) -> list[str]:
        """Put a script's interpreter in front of it, because the kernel would look for it outside the image."""
        program = self._find(argv[0])
        interpreter = _interpreter(program)
        if interpreter is None:
            return [str(program), *argv[1:]]
        words = interpreter.split()
        if words[0].endswith("/env") and len(words) > 1:
            words = words[1:]
        return [str(self._find(words[0])), *words[1:], str(program), *argv[1:]]

    def _find(self, name: str) -> Path:
        if "/" in name:
            outside = Path(name)
            if outside.is_relative_to(self.root):
                return outside
            inside = self._resolve(name.lstrip("/"))
            return inside if inside.exists() else outside
        for directory in _SEARCH:
            program = self._resolve(f"{directory}/{name}")
            if program.is_file():
                return program
        raise LabBroken(f"the image has no program {name!r}", f"looked in {self.root}: {', '.join(_SEARCH)}")

    def _resolve(self, relative: str) -> Path:
        """Follow symbolic links as if the root were /."""
        path = self.root / relative
        for _ in range(_MAX_LINKS):
            if not path.is_symlink():
                return path
            link = os.readlink(path)  # noqa: PTH115 - Path.readlink loses nothing but reads no better
            path = self.root / link.lstrip("/") if link.startswith("/") else path.parent / link
        raise LabBroken(f"too many symbolic links at {relative!r}", str(self.root))

    def _load(self, argv: Sequence[str], preload: Sequence[PurePosixPath]) -> Command:
        libraries = self.root / "usr/lib" / self.arch.triplet
        loader = [str(self._resolve(self.arch.loader.lstrip("/"))), "--library-path", f"{libraries}:{libraries}/ceph"]
        if preload:
            loader += ["--preload", ":".join(map(str, preload))]
        env = {
            **_plain_environment(),
            # Otherwise Python in ceph-mgr and in the CLI derives its library's path from its own.
            "PYTHONHOME": f"{self.root}/usr",
            "PYTHONPATH": f"{self.root}/usr/lib/python3/dist-packages",
        }
        return Command((*loader, *argv), env)

    def _emulate(self, argv: Sequence[str], preload: Sequence[PurePosixPath]) -> Command:
        emulator = find_emulator(self.arch)
        if emulator is None:
            raise missing_emulator(self.arch)
        wrapped = [emulator, "-L", str(self.root)]
        if preload:
            wrapped += ["-E", "LD_PRELOAD=" + ":".join(map(str, preload))]
        env = {**_plain_environment(), "PYTHONHOME": "/usr", "PYTHONPATH": "/usr/lib/python3/dist-packages"}
        if self.arch.qemu_cpu:
            env["QEMU_CPU"] = self.arch.qemu_cpu
        return Command((*wrapped, *argv), env)


def find_emulator(arch: Arch) -> str | None:
    """The user-mode emulator for an architecture, if installed."""
    return next((path for name in arch.qemu_user_names if (path := shutil.which(name))), None)


def missing_emulator(arch: Arch) -> Unavailable:
    """The error for a missing emulator."""
    return NotInstalled({arch.qemu_user: "qemu-user-static"}, f"{arch} programs need it on this {host_arch()} machine")


def _plain_environment() -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "TERM", "USER") if key in os.environ}
    return {**kept, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}


@lru_cache(maxsize=256)
def _interpreter(program: Path) -> str | None:
    try:
        with program.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise LabBroken(f"{program} cannot be read", str(error)) from error
    if not head.startswith(b"#!"):
        return None
    return head[2:].split(b"\n", 1)[0].decode(errors="replace").strip()
