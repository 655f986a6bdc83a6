"""File systems on a host's block devices, and digests of devices."""

from __future__ import annotations

from pathlib import PurePosixPath

from cephlab.lab.providers.host import Host

_DIGEST_S = 300.0


def make_xfs(host: Host, device: PurePosixPath) -> None:
    """Make a file system, without a discard: on a fresh image that takes a minute and changes nothing."""
    host.run(["mkfs.xfs", "-q", "-f", "-K", str(device)], timeout_s=120.0)


def mount(host: Host, device: PurePosixPath, folder: PurePosixPath) -> None:
    """Mount it; CommandFailed, with the kernel's reason, where that fails."""
    host.make_directory(folder)
    host.run(["mount", "-t", "xfs", "-o", "noatime", str(device), str(folder)], timeout_s=120.0)


def unmount(host: Host, folder: PurePosixPath) -> None:
    """Unmount it: everything written to it is then on the device."""
    host.run(["umount", str(folder)], timeout_s=120.0)


def digest(host: Host, device: PurePosixPath) -> str:
    """sha256 of a whole device, hex, read from the device itself and not from the kernel's cache."""
    host.run(["blockdev", "--flushbufs", str(device)])
    return host.run(["sha256sum", str(device)], timeout_s=_DIGEST_S).stdout.split()[0]
