"""One host of each architecture, with a directory for the work that both do at the same time."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from cephlab.lab.base.errors import try_all
from cephlab.lab.base.workers import Workers
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Host, preloading
from cephlab.lab.spec.arch import Arch

T = TypeVar("T")
_TOOL_S = 120.0  # an emulated tool needs half a minute for 10,000 PGs on a busy machine; this long means that it hangs


@dataclass(frozen=True)
class ArchSide:
    """A host of one architecture. directory: on that host, empty at first, removed at the end."""

    host: Host
    directory: PurePosixPath
    patience: float

    @property
    def arch(self) -> Arch:
        return self.host.arch

    def path(self, name: str) -> PurePosixPath:
        return self.directory / name

    def put(self, name: str, content: bytes) -> str:
        """Write a file. Returns its path as an argument for a tool."""
        self.host.push(content, self.path(name))
        return str(self.path(name))

    def get(self, name: str) -> bytes:
        return self.host.read(self.path(name))

    def run(self, program: str, *args: str | PurePosixPath, preload: tuple[PurePosixPath, ...] = ()) -> str:
        """Run an offline tool of Ceph with the cluster's configuration. Returns its standard output."""
        # The configuration goes into the environment, because `-c` means `compile` to crushtool.
        env = {"CEPH_CONF": str(conf.conf_path(self.host))}
        argv = [program, *map(str, args)]
        return run_tool(self.host, argv, env=preloading(preload, env), timeout_s=_TOOL_S * self.patience).stdout

    def clear(self) -> None:
        """Remove the directory, unless the node is down."""
        if self.host.up():
            self.host.remove(self.directory)


@contextmanager
def sides(cluster: Cluster, purpose: str) -> Iterator[Mapping[Arch, ArchSide]]:
    """A side for every architecture of the cluster. purpose: names the directory."""
    hosts = {arch: cluster.host_with(arch) for arch in cluster.spec.archs}
    by_arch = {arch: ArchSide(host, host.directory / purpose, cluster.patience) for arch, host in hosts.items()}
    try:
        for side in by_arch.values():
            side.host.remove(side.directory)
            side.host.make_directory(side.directory)
        yield by_arch
    finally:
        try_all(side.clear for side in by_arch.values())


def each(between: Mapping[Arch, ArchSide], work: Callable[[ArchSide], T]) -> dict[Arch, T]:
    """Let every side do the same work at the same time. Returns the results."""
    with Workers(max_workers=len(between), thread_name_prefix="side") as pool:
        futures = {arch: pool.submit(work, side) for arch, side in between.items()}
        return {arch: future.result() for arch, future in futures.items()}


def agree(recorder: Recorder, what: str, outputs: Mapping[Arch, bytes]) -> None:
    """Observe that every architecture made the same bytes as the first one, and not just none."""
    first, *rest = outputs
    for arch in rest:
        size = len(outputs[first])
        recorder.observe(f"{what}: {arch} against {first}", got=sha(outputs[arch]), wanted=sha(outputs[first]), of=size)


def sha(content: bytes | bytearray) -> str:
    return hashlib.sha256(content).hexdigest()
