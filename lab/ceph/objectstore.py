"""The store of a stopped OSD, through ceph-objectstore-tool of the OSD's own architecture."""

import json
from dataclasses import dataclass
from typing import Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import preloading

_TOOL_S = 120.0


@dataclass(frozen=True)
class ObjectStore:
    """The store of a stopped OSD. patience: factor on timeouts."""

    daemon: Daemon
    patience: float = 1.0

    def tool(self, *args: str, stdin: bytes = b"") -> bytes:
        """Run ceph-objectstore-tool on the store; returns its output.

        Raises LabBroken while the OSD runs, CephTrouble if the tool fails or hangs.
        """
        daemon = self.daemon
        if daemon.alive():
            raise LabBroken(f"{daemon.name} is running", "its store is locked", f"stop {daemon.name} first")
        host = daemon.host
        result = run_tool(
            host,
            ["ceph-objectstore-tool", "--data-path", str(host.directory / daemon.name), *args],
            env=preloading(daemon.preload, {"CEPH_ARGS": f"--conf {conf.conf_path(host)} --no-mon-config"}),
            timeout_s=_TOOL_S * self.patience,
            stdin=stdin,
        )
        return result.stdout_bytes

    # The tool takes tenths of a second natively and many seconds emulated.

    def set_bytes(self, pgid: str, name: str, data: bytes) -> None:
        """Replace an object's content. The store's checksums match it, so only a comparison of copies can tell."""
        self.tool("--pgid", pgid, name, "set-bytes", stdin=data)

    def get_bytes(self, pgid: str, name: str) -> bytes:
        """The content as the store has it. For an erasure-coded pool, whose pgid ends in `sN`, it is that shard."""
        return self.tool("--pgid", pgid, name, "get-bytes")

    def dump(self, pgid: str, name: str) -> dict[str, Any]:
        """The store's record of an object: info, onode with extents, blobs and their checksums."""
        return dict(json.loads(self.tool("--pgid", pgid, name, "dump")))
