"""How a planted defect gets into the programs of one architecture: preloaded, on the provider `local`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from cephlab.lab.base.process import Command
from cephlab.lab.images.shim import compiler as shim
from cephlab.lab.providers.host import PRELOAD, preloading
from cephlab.lab.providers.local.host import LocalHost
from tests.planted import HERE, Planted

DAEMONS = {"ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "radosgw"}


@contextmanager
def planted(defect: Planted, folder: Path) -> Iterator[None]:
    """Every program that starts inside the block on a node of the defect's architecture has it, as far as it is meant.

    The build raises Unavailable where a compiler is missing.
    """
    library = folder / f"{defect.name}.so"
    shim.build(defect.arch, str(HERE / defect.source), library)
    honest = LocalHost._command

    def command(host: LocalHost, argv: Sequence[str], env: Mapping[str, str] | None) -> Command:
        if host.arch is defect.arch and meant(defect, argv):
            already = [PurePosixPath(path) for path in (env or {}).get(PRELOAD, "").split(":") if path]
            env = preloading([*already, PurePosixPath(library)], env)
        return honest(host, argv, env)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalHost, "_command", command)
        yield


def meant(defect: Planted, argv: Sequence[str]) -> bool:
    """Whether a program is one of those that the defect is for."""
    daemon = PurePosixPath(argv[0]).name in DAEMONS
    return defect.daemons_or_clients in ("both", "daemons" if daemon else "clients")
