"""What this machine has and lacks for a lab: each need, present or missing, with the exact remedy."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import HOME_VARIABLE, Home
from cephlab.lab.cluster.preflight import (
    BASE_BYTES,
    EMULATED_OSD_RESIDENT_BYTES,
    OSD_DISK_BYTES,
    OSD_RESIDENT_BYTES,
    memory,
)
from cephlab.lab.images.store import SPACE_BYTES as IMAGE_BYTES
from cephlab.lab.images.tools import SystemTools
from cephlab.lab.providers import binfmt
from cephlab.lab.providers.base import Provider
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB

PYTHON = (3, 11)

MIXED_CLUSTER_BYTES = BASE_BYTES + 2 * OSD_RESIDENT_BYTES + EMULATED_OSD_RESIDENT_BYTES
"""Memory of the cluster that the gate raises: two native OSDs and an emulated one."""

ROOM_BYTES = len(Arch) * IMAGE_BYTES + 3 * OSD_DISK_BYTES
"""An image for each architecture, with what building it takes, and a small cluster."""

AIO_PER_OSD = 2048
"""What fs.aio-nr rose by for each native OSD: bdev_aio_max_queue_depth, 1024, which the kernel doubles."""

OPEN_FILES = 1024
"""The usual soft limit of a login. A daemon of a fresh small cluster held 73; the rest is room for its data."""


@dataclass(frozen=True)
class Need:
    """One thing a lab wants of this machine.

    detail: what was found. remedy: what to do when it is missing; empty when present.
    unlocks: what works with it, and does not without.
    """

    name: str
    present: bool
    detail: str
    remedy: str
    unlocks: str


@dataclass(frozen=True)
class Tool:
    """A program or file by its proof, the Debian package that has it, and what it is for.

    others: further names that the program may have and is started by all the same.
    """

    name: str
    package: str
    unlocks: str
    file: Path | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """Facts, gathered once. Sizes in bytes.

    memory_limit: which control group allows no more, in words; empty for none. aio_free: requests left system-wide,
    None where the kernel does not say.
    """

    arch: Arch
    python: tuple[int, int]
    tools: frozenset[str]
    binfmt_obstacle: Unavailable | None
    home: Path
    home_writable: bool
    free_bytes: int
    memory_bytes: int
    memory_limit: str
    aio_free: int | None
    open_files: int


def tools(arch: Arch) -> tuple[Tool, ...]:
    """The programs that a lab on a machine of that architecture starts, wherever they come from."""
    foreign = next(other for other in Arch if other is not arch)
    compiler = f"{foreign.triplet}-gcc"
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    headers = Path(f"/usr/{foreign.triplet}/include/stdio.h")
    return (
        Tool("mmdebstrap", "mmdebstrap", "building images"),
        Tool("Debian's archive keys", "debian-archive-keyring", "building images", keyring),
        Tool("mke2fs", "e2fsprogs", "images as ext4 disks"),
        Tool(compiler, f"gcc-{foreign.triplet.replace('_', '-')}", f"BlueStore on emulated {foreign} nodes"),
        Tool(
            f"{foreign} C headers",
            f"libc6-dev-{foreign.debian}-cross",
            f"BlueStore on emulated {foreign} nodes",
            headers,
        ),
        Tool(foreign.qemu_user, "qemu-user-static", f"{foreign} nodes", others=foreign.qemu_user_names[1:]),
    )


def needs(home: Home) -> tuple[Need, ...]:
    """Everything a lab wants of this machine, present or missing. Changes nothing; asks the engines that exist."""
    machine = look(home)
    return (*machine_needs(machine), *provider_needs([make() for make in PROVIDERS.values()]))


def look(home: Home) -> Machine:
    """Gather the facts of this very machine."""
    arch = host_arch()
    memory_here = memory()
    nearest = next(path for path in (home.path, *home.path.parents) if path.exists())
    return Machine(
        arch=arch,
        python=sys.version_info[:2],
        tools=frozenset(tool.name for tool in tools(arch) if _found(tool)),
        binfmt_obstacle=binfmt.obstacle(next(other for other in Arch if other is not arch)),
        home=home.path,
        home_writable=nearest.is_dir() and os.access(nearest, os.W_OK),
        free_bytes=shutil.disk_usage(nearest).free,
        memory_bytes=memory_here.available_bytes,
        memory_limit=memory_here.where,
        aio_free=_aio_free(),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def machine_needs(machine: Machine) -> tuple[Need, ...]:
    """Judge the facts: a pure function of them."""
    return (
        _python(machine),
        *(_tool_need(machine, tool) for tool in tools(machine.arch)),
        _binfmt_need(machine),
        *_sizes(machine),
    )


def provider_needs(providers: Sequence[Provider]) -> tuple[Need, ...]:
    """One need for each provider, in its own words."""
    needed = []
    for provider in sorted(providers, key=lambda provider: provider.cost):
        reason = provider.unavailable()
        can = ", ".join(sorted(provider.capabilities())) or "the basics"
        detail = "ready" if reason is None else " - ".join(part for part in (reason.what, reason.detail) if part)
        remedy = "" if reason is None else reason.hint
        needed.append(
            Need(f"provider {provider.name}", reason is None, detail, remedy, f"--lab {provider.name}: {can}")
        )
    return tuple(needed)


def _need(name: str, present: bool, detail: str, remedy: str, unlocks: str) -> Need:
    return Need(name, present, detail, "" if present else remedy, unlocks)


def _python(machine: Machine) -> Need:
    got, wanted = (".".join(map(str, version)) for version in (machine.python, PYTHON))
    remedy = f"install Python {wanted} or newer, then run `ci/bootstrap install`"
    return _need("python", machine.python >= PYTHON, got, remedy, "everything")


def _tool_need(machine: Machine, tool: Tool) -> Need:
    present = tool.name in machine.tools
    detail = "found" if present else "not found"
    return _need(tool.name, present, detail, f"apt-get install {tool.package}", tool.unlocks)


def _binfmt_need(machine: Machine) -> Need:
    foreign = next(other for other in Arch if other is not machine.arch)
    reason = machine.binfmt_obstacle
    detail = "registered, or will be at its first use" if reason is None else reason.what
    remedy = "" if reason is None else reason.hint
    return Need(f"binfmt for {foreign}", reason is None, detail, remedy, f"{foreign} nodes in containers")


def _sizes(machine: Machine) -> Iterator[Need]:
    yield _need(
        "cache folder",
        machine.home_writable,
        f"{machine.home} {'can' if machine.home_writable else 'cannot'} be written",
        f"set {HOME_VARIABLE} to a folder of yours on a disk with room",
        "everything",
    )
    yield _figure(
        "disk space",
        f"{machine.free_bytes / GIB:.1f} GiB free",
        f"{ROOM_BYTES / GIB:.1f}",
        machine.free_bytes >= ROOM_BYTES,
        f"free some space (`cephlab prune`, `cephlab image rm`) or set {HOME_VARIABLE} to a folder on a larger disk",
    )
    yield _figure(
        "memory",
        f"{machine.memory_bytes / GIB:.1f} GiB available{machine.memory_limit}",
        f"{MIXED_CLUSTER_BYTES / GIB:.1f}",
        machine.memory_bytes >= MIXED_CLUSTER_BYTES,
        "stop what else is running, or ask for fewer nodes",
    )
    if machine.aio_free is not None:
        yield _figure(
            "kernel AIO requests",
            f"{machine.aio_free} left (fs.aio-max-nr less fs.aio-nr)",
            str(3 * AIO_PER_OSD),
            machine.aio_free >= 3 * AIO_PER_OSD,
            "sudo sysctl -w fs.aio-max-nr=1048576",
        )
    unlimited = machine.open_files == resource.RLIM_INFINITY
    yield _figure(
        "open files",
        "no limit" if unlimited else f"{machine.open_files} a process",
        str(OPEN_FILES),
        unlimited or machine.open_files >= OPEN_FILES,
        f"ulimit -n {OPEN_FILES}",
    )


def _figure(name: str, got: str, wanted: str, present: bool, remedy: str) -> Need:
    return _need(name, present, f"{got}, wanted {wanted}", remedy, "a mixed cluster of three OSDs")


def _found(tool: Tool) -> bool:
    if tool.file is not None:
        return tool.file.exists()
    return any(SystemTools().locate(name) is not None for name in (tool.name, *tool.others))


def _aio_free() -> int | None:
    try:
        limit, used = (int(Path(f"/proc/sys/fs/{name}").read_text()) for name in ("aio-max-nr", "aio-nr"))
    except OSError:
        return None
    return limit - used
