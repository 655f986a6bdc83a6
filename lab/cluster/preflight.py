"""Refuses a cluster that does not fit this machine, before anything starts, and chooses the daemons' sizes."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

import psutil

from cephlab.lab.base.errors import NotInstalled, SpecError, Unavailable
from cephlab.lab.base.numbers import how_many
from cephlab.lab.ceph.conf import Sizing, choose_sizing
from cephlab.lab.providers.host import Host, files_are_here
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB, ClusterSpec

OSD_RESIDENT_BYTES = 400 << 20
"""Memory that one native OSD of the lab used after bring-up (measured with `tox -e bench`), rounded up."""

EMULATED_OSD_RESIDENT_BYTES = 700 << 20
"""The same under an emulator, whose translated code counts too."""

OSD_DISK_BYTES = 256 << 20
"""Space for an OSD's sparse disk: the empty store, and the data that the quick tier writes."""

BASE_BYTES = 600 << 20
"""Memory of the monitors and the manager."""


@dataclass(frozen=True)
class Memory:
    """Memory for this process and its children in bytes: in all, and available now.

    limited_by: folder of the control group that allows less than the machine has; empty if none does.
    """

    total_bytes: int
    available_bytes: int
    limited_by: str = ""

    @property
    def where(self) -> str:
        return f" in the control group {self.limited_by}" if self.limited_by else ""


def memory(proc: Path = Path("/proc/self")) -> Memory:
    """The machine's memory, or the part that this process's control groups (version 1 or 2) allow.

    Inactive file pages count as available, because the kernel drops them first: see `memory.stat` in the kernel's
    cgroup-v2.rst and cgroup-v1/memory.rst.
    """
    machine = psutil.virtual_memory()
    measured = Memory(machine.total, machine.available)
    for folder, files in _control_groups(proc):
        try:
            limit, used, droppable = (_figure(folder / name, key) for name, key in files)
        except (FileNotFoundError, ValueError):
            continue  # the root of a hierarchy has no such files, and `max` is no limit
        left = max(0, limit - used + droppable)
        total = min(measured.total_bytes, limit)
        tighter = left < measured.available_bytes
        measured = Memory(total, left, str(folder)) if tighter else replace(measured, total_bytes=total)
    return measured


def available_on(host: Host, *, timeout_s: float = 60.0) -> int:
    """Bytes of memory that are available to programs of a host."""
    if files_are_here(host):
        return memory().available_bytes
    lines = host.run(["cat", "/proc/meminfo"], timeout_s=timeout_s).stdout.splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


_FILES_1 = (
    ("memory.limit_in_bytes", ""),
    ("memory.usage_in_bytes", ""),
    ("memory.stat", "total_inactive_file"),
)
_FILES_2 = (("memory.max", ""), ("memory.current", ""), ("memory.stat", "inactive_file"))
_Files = tuple[tuple[str, str], ...]


def _control_groups(proc: Path) -> Iterator[tuple[Path, _Files]]:
    """Folders of this process's control groups, innermost first, and the files with their figures."""
    paths = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    of_memory = next((path for names, path in paths.items() if "memory" in names.split(",")), None)
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        root, mount_point = fields.split()[3:5]
        file_system, *_, options = kind.split()  # the source between them may be empty
        if file_system == "cgroup" and "memory" in options.split(",") and of_memory is not None:
            yield from ((folder, _FILES_1) for folder in _upwards(mount_point, root, of_memory))
        elif file_system == "cgroup2" and "" in paths:
            yield from ((folder, _FILES_2) for folder in _upwards(mount_point, root, paths[""]))


def _upwards(mount_point: str, root: str, path: str) -> Iterator[Path]:
    # In a container the mount may start at the container's own group, or at a sibling of it.
    inside = PurePosixPath(path)
    below = inside.relative_to(root) if inside.is_relative_to(root) else PurePosixPath()
    for part in (below, *below.parents):
        yield Path(mount_point) / part


def _figure(file: Path, key: str) -> int:
    text = file.read_text()
    if not key:
        return int(text)
    return next((int(line.split()[1]) for line in text.splitlines() if line.split()[:1] == [key]), 0)


class Store(Protocol):
    """Knows which programs are needed to make an image."""

    def lacking(self, release: str, arch: Arch, role_sets: Sequence[str] = ...) -> dict[str, str]: ...


def require_installed(
    spec: ClusterSpec,
    store: Store,
    reason: Unavailable | None = None,
    role_sets: Sequence[str] = ("ceph",),
    *,
    skips: bool = False,
) -> None:
    """Raise NotInstalled with all programs that a cluster needs and this machine lacks. Starts nothing.

    reason: why the provider is unavailable, which may name some of them. skips: clusters that cannot be raised are
    skipped, so refuse only for programs that every cluster needs.
    """
    lacking = dict(reason.missing) if isinstance(reason, NotInstalled) else {}
    needless = skips and spec.image is None and not store.lacking(spec.release, host_arch(), role_sets)
    for arch in spec.archs if spec.image is None and not needless else ():
        lacking |= store.lacking(spec.release, arch, role_sets)
    if lacking:
        raise NotInstalled(lacking, "needed for this cluster")


def memory_needed(spec: ClusterSpec) -> int:
    """Approximate memory in bytes of a cluster's daemons and of its disks in memory."""
    emulated = sum(len(node.osds) for node in spec.nodes if node.arch is not host_arch())
    daemons = BASE_BYTES + (spec.osd_count - emulated) * OSD_RESIDENT_BYTES + emulated * EMULATED_OSD_RESIDENT_BYTES
    return daemons + sum(disk.size_bytes for node in spec.nodes for disk in node.disks if disk.in_memory)


def require_guests_fit(spec: ClusterSpec) -> None:
    """Unavailable if this machine has less memory than the spec gives its guests, which will use all of it in time."""
    needed = sum(node.memory_bytes or 0 for node in spec.nodes)
    here = memory()
    if needed > here.available_bytes:
        raise Unavailable(
            f"{how_many(len(spec.nodes), 'guest does', 'guests do')} not fit into this machine's memory",
            f"needed {needed / GIB:.1f} GiB, available {here.available_bytes / GIB:.1f} GiB{here.where}",
            "run it on a machine with more memory, or stop other programs",
        )


def require_fit(spec: ClusterSpec, directory: Path, written_bytes: int = 0) -> Sizing:
    """Choose the sizes of the daemons. SpecError, with needed and available space, if memory or disk is too small.

    written_bytes: what a load will write to the disks of the OSDs in that folder, all copies together.
    """
    emulated = sum(len(node.osds) for node in spec.nodes if node.arch is not host_arch())
    needed = memory_needed(spec)
    here = memory()
    if needed > here.available_bytes:
        raise SpecError(
            f"{how_many(spec.osd_count, 'OSD does', 'OSDs do')} not fit into this machine's memory",
            f"needed about {needed / GIB:.1f} GiB, available {here.available_bytes / GIB:.1f} GiB{here.where}",
            "ask for fewer nodes or fewer --osds-per-node, or stop other programs",
        )
    room = spec.osd_count * OSD_DISK_BYTES + written_bytes
    free = shutil.disk_usage(directory).free
    if room > free:
        written = f", of which the load writes {written_bytes / GIB:.1f} GiB" if written_bytes else ""
        raise SpecError(
            f"{how_many(spec.osd_count, 'OSD does', 'OSDs do')} not fit onto the disk of {directory}",
            f"needed about {room / GIB:.1f} GiB{written}, free {free / GIB:.1f} GiB",
            f"ask for fewer OSDs{' or a smaller --size' if written else ''}, "
            "or set CEPHLAB_HOME to a folder on a larger disk",
        )
    cores = len(os.sched_getaffinity(0))
    return choose_sizing(here.total_bytes, cores, spec.osd_count, emulated=emulated)
