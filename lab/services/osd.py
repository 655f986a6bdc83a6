"""The service of OSDs."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host, lacks_aio
from cephlab.lab.services.service import Metadata, Service

SHIM_NAME = "libcephlab-aio.so"


class OsdService(Service):
    """Object storage daemons. An emulated one needs a substitute for libaio."""

    def preload(self, host: Host) -> tuple[PurePosixPath, ...]:
        return (host.directory / SHIM_NAME,) if lacks_aio(host) else ()

    def lost(self, client: RadosClient, ident: str) -> bool:
        entries = client.mon("osd dump")["osds"]
        return not next(entry["up"] for entry in entries if str(entry["osd"]) == ident)

    def metadata(self, client: RadosClient) -> Sequence[Metadata]:
        classes = {node["id"]: node.get("device_class", "") for node in client.mon("osd tree")["nodes"]}
        return [
            {**entry, "name": entry["id"], "device_class": classes.get(entry["id"], "")}
            for entry in client.mon("osd metadata")
        ]


OSD = OsdService("osd", caps={"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"})
"""With the same capabilities as Ceph's own deployment tools set."""
