"""Device mapper on a host: tables, and named devices whose table can change under a running program.

Tables as in the kernel's Documentation/admin-guide/device-mapper/; a sector has 512 bytes.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.providers.host import Host

SECTOR_BYTES = 512
_MODULES = ("dm-mod", "dm-delay", "dm-cache", "dm-cache-smq", "dm-writecache")
# No udev answers dmsetup. With these options dmsetup makes the device nodes itself.
_ALONE = ("--noudevsync", "--noudevrules")


def linear(device: PurePosixPath, sectors: int) -> str:
    """A table that maps to the first `sectors` sectors of a device."""
    return f"0 {sectors} linear {device} 0"


def delayed(device: PurePosixPath, sectors: int, *, read_ms: int, write_ms: int) -> str:
    """A table that delays reads and writes, however many are in flight, but not flushes."""
    return f"0 {sectors} delay {device} 0 {read_ms} {device} 0 {write_ms} {device} 0 0"


def failing(sectors: int) -> str:
    """A table that answers every request with an I/O error."""
    return f"0 {sectors} error"


@dataclass(frozen=True)
class Mapper:
    """The mapped devices of one host, by name."""

    host: Host

    def load_modules(self) -> None:
        """Load the modules, once for each boot of the host; LabBroken if its kernel lacks one."""
        self.host.run(["modprobe", "--all", *_MODULES])

    @staticmethod
    def path(name: str) -> PurePosixPath:
        return PurePosixPath("/dev/mapper") / name

    def create(self, name: str, table: str) -> PurePosixPath:
        self.host.run(["dmsetup", "create", name, *_ALONE, "--table", table])
        self.host.run(["dmsetup", "mknodes", name])
        return self.path(name)

    def swap(self, name: str, table: str) -> str:
        """Give a device another table, even while it is in use: requests in flight first end on the old table.

        Returns the last status of the old table, taken when nothing was in flight any more.
        """
        self.host.run(["dmsetup", "load", name, *_ALONE, "--table", table])
        self.host.run(["dmsetup", "suspend", name, *_ALONE])
        try:
            return self.status(name)
        finally:  # a device that stays suspended holds every program that uses it
            self.host.run(["dmsetup", "resume", name, *_ALONE])

    def clear_first_block(self, device: PurePosixPath) -> None:
        """Zero the first block, so that no target finds its metadata there."""
        self.host.run(["dd", "if=/dev/zero", f"of={device}", "bs=4096", "count=1", "oflag=direct", "conv=fsync"])

    def remove(self, name: str) -> None:
        self.host.run(["dmsetup", "remove", "--retry", *_ALONE, name])

    def names(self) -> tuple[str, ...]:
        """The names of all mapped devices, newest last."""
        lines = self.host.run(["dmsetup", "info", "-c", "--noheadings", "-o", "name,minor", "--separator", " "]).stdout
        devices = [line.split() for line in lines.splitlines() if len(line.split()) == 2]
        return tuple(name for name, _minor in sorted(devices, key=lambda row: int(row[1])))

    def status(self, name: str) -> str:
        """The status of a device's target: what follows `START LENGTH TARGET`."""
        return self.host.run(["dmsetup", "status", name]).stdout.strip().split(maxsplit=3)[-1]

    def message(self, name: str, text: str) -> None:
        self.host.run(["dmsetup", "message", name, "0", *text.split()])

    def sectors(self, device: PurePosixPath) -> int:
        """Size of any block device, in sectors."""
        return int(self.host.run(["blockdev", "--getsz", str(device)]).stdout)

    def whole(self, device: PurePosixPath) -> str:
        """A table that maps to a whole device."""
        return linear(device, self.sectors(device))

    def with_delay(self, name: str, device: PurePosixPath, delay_ms: int) -> None:
        """Map a name to a whole device with a delay on each read and write; 0 for no delay."""
        sectors = self.sectors(device)
        table = delayed(device, sectors, read_ms=delay_ms, write_ms=delay_ms) if delay_ms else linear(device, sectors)
        self.swap(name, table)
