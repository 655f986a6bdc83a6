"""Lists what a lab needs on this machine: each need, whether it is met, and the exact remedy if not."""

import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
"""Disk space for an image of each architecture, for building it, and for a small cluster."""

AIO_PER_OSD = 2048
"""How much each native OSD adds to fs.aio-nr: bdev_aio_max_queue_depth, 1024, which the kernel doubles."""

OPEN_FILES = 1024
"""The usual soft limit of a login. A daemon of a fresh small cluster had 73 files open; its data need the rest."""


@dataclass(frozen=True)
class Need:
    """One need of a lab. detail: the state here; remedy: what to do, empty if present; unlocks: what needs it."""

    name: str
    present: bool
    detail: str
    remedy: str
    unlocks: str


_PROVIDER = "provider "
EVERYTHING = "everything"
"""`unlocks` of a need without which no lab can run at all."""


def lacking(needed: Sequence[Need]) -> list[Need]:
    """The missing needs that keep every lab from running: those for everything, and all providers if none is ready."""
    missing = [need for need in needed if not need.present and need.unlocks == EVERYTHING]
    places = [need for need in needed if need.name.startswith(_PROVIDER)]
    return missing + ([] if any(need.present for need in places) else places)


def ready_words(needed: Sequence[Need]) -> str:
    """Which providers are ready, and which others nobody has to install."""
    ready, missing = (
        [
            need.name.removeprefix(_PROVIDER)
            for need in needed
            if need.name.startswith(_PROVIDER) and need.present is present
        ]
        for present in (True, False)
    )
    others = f"; optional: {', '.join(missing)}" if missing else ""
    return f"ready providers: {', '.join(ready)} (one is enough){others}"


@dataclass(frozen=True)
class Tool:
    """A program or file, the Debian package that has it, and what it is for.

    file: the file to look for, if it is not the program's name; others: other names of the program.
    """

    name: str
    package: str
    unlocks: str
    file: Path | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineFacts:
    """Facts about this machine. Sizes in bytes.

    memory_limit: the control group that limits memory, in words; empty if there is none. aio_free: AIO requests left
    system-wide; None if the kernel does not report them.
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
    """The programs and files that a lab needs on a machine of that architecture."""
    foreign = arch.other
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    headers = Path(f"/usr/{foreign.triplet}/include/stdio.h")
    shim = f"BlueStore on emulated {foreign} nodes"
    return (
        Tool("mmdebstrap", "mmdebstrap", "building images"),
        Tool("Debian's archive keys", "debian-archive-keyring", "building images", keyring),
        Tool("mke2fs", "e2fsprogs", "images as ext4 disks"),
        Tool(f"{foreign.triplet}-gcc", f"gcc-{foreign.triplet.replace('_', '-')}", shim),
        Tool(f"{foreign} C headers", f"libc6-dev-{foreign.debian}-cross", shim, headers),
        Tool(foreign.qemu_user, "qemu-user-static", f"{foreign} nodes", others=foreign.qemu_user_names[1:]),
    )


def needs(home: Home) -> tuple[Need, ...]:
    """All needs of a lab on this machine. Changes nothing; contacts the engines that exist."""
    return (*machine_needs(look(home)), *provider_needs([make() for make in PROVIDERS.values()]))


def look(home: Home) -> MachineFacts:
    """Gather the facts of this machine."""
    arch = host_arch()
    memory_here = memory()
    nearest = home.nearest
    return MachineFacts(
        arch=arch,
        python=sys.version_info[:2],
        tools=frozenset(tool.name for tool in tools(arch) if _found(tool)),
        binfmt_obstacle=binfmt.obstacle(arch.other),
        home=home.path,
        home_writable=_writable(nearest),
        free_bytes=shutil.disk_usage(nearest).free,
        memory_bytes=memory_here.available_bytes,
        memory_limit=memory_here.where,
        aio_free=_aio_free(),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def provider_needs(providers: Sequence[Provider]) -> tuple[Need, ...]:
    """A need for each provider, with the reason that the provider itself gives."""
    needed = []
    for provider in sorted(providers, key=lambda provider: provider.cost):
        reason = provider.unavailable()
        can = ", ".join(sorted(provider.capabilities())) or "basic clusters"
        detail = "ready" if reason is None else ": ".join(part for part in (reason.what, reason.detail) if part)
        needed.append(_obstructed(f"{_PROVIDER}{provider.name}", reason, detail, f"--lab {provider.name}: {can}"))
    return tuple(needed)


def _obstructed(name: str, reason: Unavailable | None, detail: str, unlocks: str) -> Need:
    return Need(name, reason is None, detail, "" if reason is None else reason.hint, unlocks)


def _need(name: str, present: bool, detail: str, remedy: str, unlocks: str) -> Need:
    return Need(name, present, detail, "" if present else remedy, unlocks)


def machine_needs(machine: MachineFacts) -> Iterator[Need]:
    """The needs that follow from these facts."""
    got, wanted = (".".join(map(str, version)) for version in (machine.python, PYTHON))
    remedy = f"install Python {wanted} or newer, then run `ci/bootstrap install`"
    yield _need("python", machine.python >= PYTHON, got, remedy, EVERYTHING)
    for tool in tools(machine.arch):
        present = tool.name in machine.tools
        detail = "found" if present else "not found"
        yield _need(tool.name, present, detail, f"apt-get install {tool.package}", tool.unlocks)
    foreign, reason = machine.arch.other, machine.binfmt_obstacle
    detail = "registered now or on first use" if reason is None else reason.what
    yield _obstructed(f"binfmt for {foreign}", reason, detail, f"{foreign} nodes in containers")
    yield from _sizes(machine)


def _sizes(machine: MachineFacts) -> Iterator[Need]:
    yield _need(
        "cache folder",
        machine.home_writable,
        f"{machine.home} is {'' if machine.home_writable else 'not '}writable",
        f"set {HOME_VARIABLE} to a folder that you can write, on a disk with enough space",
        EVERYTHING,
    )
    room = _figure(
        "disk space",
        f"{machine.free_bytes / GIB:.1f} GiB free",
        f"{ROOM_BYTES / GIB:.1f}",
        machine.free_bytes >= ROOM_BYTES,
        f"free some space (`cephlab prune`, `cephlab image rm`) or set {HOME_VARIABLE} to a folder on a larger disk",
    )
    yield room if machine.free_bytes >= OSD_DISK_BYTES else replace(room, unlocks=EVERYTHING)
    yield _figure(
        "memory",
        f"{machine.memory_bytes / GIB:.1f} GiB available{machine.memory_limit}",
        f"{MIXED_CLUSTER_BYTES / GIB:.1f}",
        machine.memory_bytes >= MIXED_CLUSTER_BYTES,
        "stop other programs, or ask for fewer nodes",
    )
    if machine.aio_free is not None:
        yield _figure(
            "kernel AIO requests",
            f"{machine.aio_free} left (fs.aio-max-nr minus fs.aio-nr)",
            str(3 * AIO_PER_OSD),
            machine.aio_free >= 3 * AIO_PER_OSD,
            "sudo sysctl -w fs.aio-max-nr=1048576",
        )
    unlimited = machine.open_files == resource.RLIM_INFINITY
    yield _figure(
        "open files",
        "no limit" if unlimited else f"{machine.open_files} per process",
        str(OPEN_FILES),
        unlimited or machine.open_files >= OPEN_FILES,
        f"ulimit -n {OPEN_FILES}",
    )


def _figure(name: str, got: str, wanted: str, present: bool, remedy: str) -> Need:
    return _need(name, present, f"{got}, wanted {wanted}", remedy, "a mixed cluster of three OSDs")


def _writable(folder: Path) -> bool:
    """Whether files can be made in it. Its mode does not tell: root has every right in /proc, where nothing is made."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


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
