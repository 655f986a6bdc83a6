"""One host of each architecture with a directory of its own, and the same work done by both at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from cephlab.lab.base.workers import Workers
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Host, preloading
from cephlab.lab.spec.arch import Arch

T = TypeVar("T")
_TOOL_S = 120.0  # an emulated tool that maps 10,000 PGs needs half a minute on a busy machine; this hangs before


@dataclass(frozen=True)
class ArchSide:
    """An architecture's host. directory: on that host, empty at first, gone at the end."""

    host: Host
    directory: PurePosixPath
    patience: float

    @property
    def arch(self) -> Arch:
        return self.host.arch

    def path(self, name: str) -> PurePosixPath:
        return self.directory / name

    def put(self, name: str, content: bytes) -> str:
        """Write a file; its path as an argument for a tool."""
        self.host.push(content, self.path(name))
        return str(self.path(name))

    def get(self, name: str) -> bytes:
        return self.host.read(self.path(name))

    def run(self, program: str, *args: str | PurePosixPath, preload: tuple[PurePosixPath, ...] = ()) -> str:
        """Run one of Ceph's offline tools with the cluster's configuration; its standard output."""
        # By environment, because `-c` means `compile` to crushtool.
        env = {"CEPH_CONF": str(conf.conf_path(self.host))}
        argv = [program, *map(str, args)]
        return run_tool(self.host, argv, env=preloading(preload, env), timeout_s=_TOOL_S * self.patience).stdout


@contextmanager
def sides(cluster: Cluster, purpose: str) -> Iterator[Mapping[Arch, ArchSide]]:
    """A side for every architecture of the cluster. purpose: names the directory."""
    hosts = {arch: cluster.host_with(arch) for arch in cluster.spec.archs}
    made = {arch: ArchSide(host, host.directory / purpose, cluster.patience) for arch, host in hosts.items()}
    try:
        for side in made.values():
            side.host.remove(side.directory)
            side.host.make_directory(side.directory)
        yield made
    finally:
        for side in made.values():
            if side.host.up():
                side.host.remove(side.directory)


def each(between: Mapping[Arch, ArchSide], work: Callable[[ArchSide], T]) -> dict[Arch, T]:
    """Let every side do the same, all at once; what each made of it."""
    with Workers(max_workers=len(between), thread_name_prefix="side") as pool:
        futures = {arch: pool.submit(work, side) for arch, side in between.items()}
        return {arch: future.result() for arch, future in futures.items()}


def other(between: Mapping[Arch, ArchSide], side: ArchSide) -> Arch:
    """The architecture that this side is not."""
    return next(arch for arch in between if arch is not side.arch)


def agree(recorder: Recorder, what: str, made: Mapping[Arch, bytes]) -> None:
    """Observe that every architecture made the same bytes; the first one's are those wanted."""
    first, *rest = made
    for arch in rest:
        size = len(made[first])
        recorder.observe(f"{what}: {arch} against {first}", got=sha(made[arch]), wanted=sha(made[first]), size=size)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
