"""A node of the `local` provider: processes with an address and a directory of their own."""

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Command, LocalProcess, Pipe, Result
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, write_private
from cephlab.lab.providers.host import PRELOAD, Facts, require_disk
from cephlab.lab.providers.local.programs import RESPAWNING, Programs, respawning
from cephlab.lab.spec.arch import Arch

NODE_VARIABLE = "CEPHLAB_NODE"
"""Environment variable `RUN/NODE` of every process of a node. Killing the node kills those processes."""


@dataclass(frozen=True)
class LocalHost:
    """Processes that run from the image's root, without privileges and namespaces."""

    name: str
    arch: Arch
    address: str
    run_id: str
    base: Path
    programs: Programs
    disks: dict[str, Path]
    home: Path
    files_here = True

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath(self.base)

    @property
    def root(self) -> PurePosixPath:
        # The emulator maps absolute paths into the image; native programs see the real tree.
        return PurePosixPath("/") if self.emulated else PurePosixPath(self.programs.root)

    @property
    def emulated(self) -> bool:
        return self.programs.emulated

    @property
    def marks(self) -> dict[str, str]:
        """Marks in the environment of every process of the node."""
        return {NODE_VARIABLE: f"{self.run_id}/{self.name}", HOME_MARK: str(self.home)}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        cwd: PurePosixPath | None = None,
    ) -> Result:
        command = replace(self._command(argv, env), cwd=Path(cwd) if cwd else None)
        return process.run_command(command, timeout_s=timeout_s, stdin=stdin, check=check)

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath, env: Mapping[str, str] | None = None) -> LocalProcess:
        command = self._command(argv, env)
        again = PurePosixPath(argv[0]).name in RESPAWNING and not self.emulated
        started = replace(command, argv=respawning(command.argv)) if again else command
        return process.start_command(started, Path(log))

    def find(self, ref: Mapping[str, Any]) -> LocalProcess:
        return process.recall(ref)

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Pipe:
        return Pipe(self._with_wrappers(self._command(argv, env)))

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        command = self._with_wrappers(self._command(argv, env))
        return ("env", *(f"{key}={value}" for key, value in command.env.items()), *command.argv)

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        path = Path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = source if isinstance(source, bytes) else source.read_bytes()
        write_private(path, content, mode=mode)

    def pull(self, source: PurePosixPath, target: Path) -> None:
        file = self._found_at(source)
        if not file.is_file():
            raise LabBroken(f"{source} is not a file on {self.name}")
        shutil.copyfile(file, target)

    def read(self, source: PurePosixPath) -> bytes:
        try:
            return self._found_at(source).read_bytes()
        except OSError as error:
            raise LabBroken(f"{source} cannot be read on {self.name}", str(error)) from error

    def exists(self, path: PurePosixPath) -> bool:
        return self._found_at(path).exists()

    def _found_at(self, path: PurePosixPath) -> Path:
        """The file that a program on this host finds under a path. An emulator looks into the image first."""
        inside = self.programs.root / str(path).lstrip("/")
        return inside if self.emulated and inside.exists() else Path(path)

    def make_directory(self, path: PurePosixPath) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: PurePosixPath) -> None:
        target = Path(path)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def disk(self, name: str) -> PurePosixPath:
        require_disk(self.name, name, self.disks)
        return PurePosixPath(self.disks[name])

    def facts(self) -> Facts:
        return Facts(
            arch=self.arch,
            emulated=self.emulated,
            kernel=platform.release(),
            cores=float(len(os.sched_getaffinity(0))),
            memory_bytes=psutil.virtual_memory().total,
        )

    @property
    def down_file(self) -> Path:
        return self.base / ".down"

    def up(self) -> bool:
        return self.base.is_dir() and not self.down_file.exists()

    def _with_wrappers(self, command: Command) -> Command:
        """A command whose own commands are programs of the image: without this, a shell would start this machine's."""
        # The folder above an image's root has the image's key as its name. All nodes with an image share the scripts.
        wrappers = self.base.parent / f"programs-{self.arch}-{self.programs.root.parent.name[:12]}"
        self.programs.write_wrappers(wrappers)
        path = f"{wrappers}:{command.env.get('PATH', os.defpath)}"
        return replace(command, env={**command.env, "PATH": path})

    def _command(self, argv: Sequence[str], env: Mapping[str, str] | None) -> Command:
        if not self.up():
            raise LabBroken(f"{self.name} is down", f"asked to run: {' '.join(argv)}")
        own = dict(env or {})
        preload = [PurePosixPath(library) for library in own.pop(PRELOAD, "").split(":") if library]
        command = self.programs.command(argv, preload=preload)
        marked = {**command.env, **own, RUN_VARIABLE: self.run_id, **self.marks}
        return replace(command, env=marked, where=self.name, shown=tuple(argv))
