"""Lets the kernel run programs of a foreign architecture inside containers."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken, NotInstalled, Unavailable
from cephlab.lab.base.progress import Progress
from cephlab.lab.spec.arch import Arch

MOUNT_POINT = Path("/proc/sys/fs/binfmt_misc")
SHIPPED = Path("/usr/lib/binfmt.d")

# The first 20 bytes of a 64-bit ELF file: magic, class, byte order, then type (2 or 3) and machine.
_MAGIC = r"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x{machine:02x}\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


@dataclass(frozen=True)
class Handler:
    """One entry of binfmt_misc. flags: `F` means that it also works inside containers."""

    enabled: bool
    flags: str
    magic: str

    def serves(self, arch: Arch) -> bool:
        """Whether it runs programs of `arch` inside a container."""
        machine = arch.elf_machine.to_bytes(2, "little").hex()
        return (
            self.enabled and "F" in self.flags and self.magic.startswith("7f454c46") and (self.magic[36:40] == machine)
        )


def parse_handler(text: str) -> Handler:
    """Read the text of an entry in binfmt_misc."""
    lines = text.splitlines()
    fields = dict(line.partition(" ")[::2] for line in lines[1:])
    return Handler(
        enabled=lines[:1] == ["enabled"],
        flags=fields.get("flags:", ""),
        magic=fields.get("magic", ""),
    )


def handlers(mount_point: Path = MOUNT_POINT) -> list[Handler]:
    """All registered handlers; empty when binfmt_misc is not mounted."""
    if not mount_point.is_dir():
        return []
    entries = [path for path in mount_point.iterdir() if path.name not in {"register", "status"}]
    return [parse_handler(path.read_text()) for path in entries]


def served(arch: Arch, mount_point: Path = MOUNT_POINT) -> bool:
    """Whether a handler runs programs of `arch` inside containers."""
    return any(handler.serves(arch) for handler in handlers(mount_point))


def obstacle(arch: Arch, mount_point: Path = MOUNT_POINT) -> Unavailable | None:
    """Why containers of `arch` cannot run on this machine, even if `ensure` registers an emulator; None if they can."""
    if served(arch, mount_point):
        return None
    remedy = f"as root: apt-get install qemu-user-static binfmt-support, then register {arch.qemu_user}"
    if os.geteuid() != 0:
        return Unavailable(
            f"this kernel does not run {arch} programs in containers, and only root can change that",
            f"{mount_point} has no handler with the F flag for {arch}",
            f"{remedy}; or use --lab local",
        )
    if shutil.which(arch.qemu_user) is None:
        return NotInstalled({arch.qemu_user: "qemu-user-static"}, f"{arch} programs need it in containers")
    if not mount_point.is_dir():
        return Unavailable(
            "this kernel has no binfmt_misc", f"{mount_point} does not exist", "load the module, or use --lab local"
        )
    return None


def ensure(arch: Arch, progress: Progress, mount_point: Path = MOUNT_POINT) -> None:
    """Register the emulator unless a handler serves `arch`. Raises the `obstacle`, if any.

    progress: called for each change, because it affects the whole machine and remains after the lab.
    """
    if served(arch, mount_point):
        return
    reason = obstacle(arch, mount_point)
    if reason is not None:
        raise reason
    if not (mount_point / "register").exists():
        progress(f"mounting binfmt_misc on {mount_point}, for containers of {arch}; it stays after the lab is removed")
        process.run(("mount", "-t", "binfmt_misc", "none", str(mount_point)))
    if served(arch, mount_point):
        return
    line = registration(arch)
    progress(
        f"registering {arch.qemu_user} with this machine's kernel, for containers of {arch}; it stays after the lab is "
        f"removed: {line}"
    )
    try:
        (mount_point / "register").write_text(line)
    except FileExistsError as error:
        if served(arch, mount_point):
            return  # another process was faster
        raise LabBroken(
            f"the registered handler for {arch} does not work in containers",
            line,
            f"remove it (echo -1 > {mount_point}/qemu-{arch}) and try again",
        ) from error
    except OSError as error:
        raise LabBroken(f"the kernel refused the handler for {arch}", f"{line}\n{error}") from error
    if not served(arch, mount_point):
        raise LabBroken(f"the handler for {arch} was registered but does not work", line)


def registration(arch: Arch, shipped: Path = SHIPPED) -> str:
    """The line for binfmt_misc: the distribution's if it works in containers, else our own."""
    path = shipped / f"qemu-{arch}.conf"
    if path.is_file():
        line = path.read_text().strip()
        if "F" in line.rpartition(":")[2]:
            return line
    return f":qemu-{arch}:M::{_MAGIC.format(machine=arch.elf_machine)}:{_MASK}:/usr/bin/{arch.qemu_user}:F"
