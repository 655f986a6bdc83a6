"""File systems on a host's block devices, and what a device holds."""

from __future__ import annotations

from pathlib import PurePosixPath

from cephlab.lab.providers.host import Host

_DIGEST_S = 300.0


def make_xfs(host: Host, device: PurePosixPath) -> None:
    """Does not discard first: on a fresh image that takes a minute and changes nothing."""
    host.run(["mkfs.xfs", "-q", "-f", "-K", str(device)], timeout_s=120.0)


def mount(host: Host, device: PurePosixPath, folder: PurePosixPath) -> None:
    """CommandFailed, with the kernel's reason, where it cannot be mounted."""
    host.make_directory(folder)
    host.run(["mount", "-t", "xfs", "-o", "noatime", str(device), str(folder)], timeout_s=120.0)


def unmount(host: Host, folder: PurePosixPath) -> None:
    """All that was written to it is on the device afterwards."""
    host.run(["umount", str(folder)], timeout_s=120.0)


def digest(host: Host, device: PurePosixPath) -> str:
    """sha256 of all that a device holds, hex, read from the device and not from what the kernel kept of it."""
    host.run(["blockdev", "--flushbufs", str(device)])
    return host.run(["sha256sum", str(device)], timeout_s=_DIGEST_S).stdout.split()[0]
