"""How a planted defect gets into the programs of one architecture: preloaded, in processes and in guests."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from cephlab.lab.base.process import Command
from cephlab.lab.images.shim import compiler as shim
from cephlab.lab.providers.guest.host import GuestHost
from cephlab.lab.providers.host import PRELOAD, preloading
from cephlab.lab.providers.local.host import LocalHost
from tests.planted import HERE, Planted

KINDS: Mapping[str, str] = {
    "ceph-mon": "mon",
    "ceph-mgr": "mgr",
    "ceph-osd": "osd",
    "ceph-mds": "mds",
    "radosgw": "rgw",
}
"""Program -> kind of daemon."""
Env = Mapping[str, str] | None


@contextmanager
def planted(defect: Planted, folder: Path) -> Iterator[None]:
    """Every program that starts inside the block on a node of the defect's architecture has it, as far as it is meant.

    The build raises Unavailable where a compiler is missing.
    """
    library = folder / f"{defect.name}.so"
    if defect.source:
        shim.build(defect.arch, str(HERE / defect.source), library, defines=defect.defines)
    honest, run, spawn = LocalHost._command, GuestHost.run, GuestHost.spawn

    def command(host: LocalHost, argv: Sequence[str], env: Env) -> Command:
        if host.arch is defect.arch and meant(defect, argv):
            argv = [*argv, *defect.options]
            env = with_it(PurePosixPath(library), env) if defect.source else env
        return honest(host, argv, env)

    def inside(host: GuestHost, argv: Sequence[str], env: Env) -> Env:
        if host.arch is not defect.arch or not meant(defect, argv):
            return env
        there = host.directory / library.name
        if not host.exists(there):
            host.push(library, there, mode=0o755)
        return with_it(there, env)

    def run_inside(host: GuestHost, argv: Sequence[str], *, env: Env = None, **how: Any) -> Any:
        return run(host, argv, env=inside(host, argv, env), **how)

    def spawn_inside(host: GuestHost, argv: Sequence[str], *, env: Env = None, **how: Any) -> Any:
        return spawn(host, argv, env=inside(host, argv, env), **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalHost, "_command", command)
        patch.setattr(GuestHost, "run", run_inside)
        patch.setattr(GuestHost, "spawn", spawn_inside)
        yield


def with_it(library: PurePosixPath, env: Env) -> dict[str, str]:
    """An environment that preloads one library more."""
    already = [PurePosixPath(path) for path in (env or {}).get(PRELOAD, "").split(":") if path]
    return preloading([*already, library], env)


def meant(defect: Planted, argv: Sequence[str]) -> bool:
    """Whether a program is one of those that the defect is for."""
    kind = KINDS.get(PurePosixPath(argv[0]).name, "")
    return defect.into in ("both", "daemons" if kind else "clients", kind)
