"""BlueStore's own check of an OSD's store, while the OSD does not run."""

from __future__ import annotations

from dataclasses import dataclass

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import preloading

_CLEAN = "fsck success"
_FSCK_S = 120.0


@dataclass(frozen=True)
class Fsck:
    """Result of `ceph-bluestore-tool fsck`. said: its output, or why it could not open the store."""

    osd: str
    clean: bool
    said: str


def fsck(daemon: Daemon, *, deep: bool = False, patience: float = 1.0) -> Fsck:
    """Check an OSD's store on its host. deep: check all data too, after replaying deferred writes to the disk.

    Without `deep` nothing is written: BlueStore::_fsck opens the store read-only.
    """
    data = daemon.host.directory / daemon.name
    argv = ["ceph-bluestore-tool", "fsck", "--path", str(data), "--deep", "1" if deep else "0"]
    try:
        done = run_tool(daemon.host, argv, timeout_s=_FSCK_S * patience, env=preloading(daemon.preload))
    except CephTrouble as error:
        return Fsck(daemon.name, clean=False, said=f"{error.what}\n{error.detail}")
    said = done.stdout + done.stderr
    return Fsck(daemon.name, clean=_CLEAN in said, said=said.strip())
