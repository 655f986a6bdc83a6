"""The service of CephFS metadata servers."""

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.service import Service

FILE_SYSTEM = "lab"
META_POOL, DATA_POOL = "cephfs.lab.meta", "cephfs.lab.data"
ACTIVE = "up:active"
_SERVING = (ACTIVE, "up:standby", "up:standby-replay")


class Mds(Service):
    """A metadata server. Before the first one starts, the lab's file system is made."""

    def prepare(self, client: RadosClient) -> None:
        if client.mon("fs ls"):
            return
        for pool in (META_POOL, DATA_POOL):
            client.mon("osd pool create", pool=pool, pg_num=8)
        client.mon("fs new", fs_name=FILE_SYSTEM, metadata=META_POOL, data=DATA_POOL)

    def missing(self, client: RadosClient, host: Host, ident: str) -> str:
        state = states(client).get(ident, "not in the map")
        return "" if state in _SERVING else f"mds.{ident} is {state}"

    def lost(self, client: RadosClient, ident: str) -> bool:
        return ident not in states(client)


def states(client: RadosClient) -> dict[str, str]:
    """Metadata server -> its state in the map, e.g. `up:active`."""
    dump = client.mon("fs dump")
    ranks = [info for system in dump["filesystems"] for info in system["mdsmap"]["info"].values()]
    return {info["name"]: info["state"] for info in (*ranks, *dump["standbys"])}


def active(client: RadosClient) -> list[str]:
    """Names of the active daemons, e.g. `mds.n0`, in no particular order."""
    return [f"mds.{ident}" for ident, state in states(client).items() if state == ACTIVE]


def want_standbys(client: RadosClient, count: int) -> None:
    """Set how many standbys Ceph expects. Once there was a standby, Ceph always expects one and warns without it."""
    client.mon("fs set", fs_name=FILE_SYSTEM, var="standby_count_wanted", val=str(count))


MDS = Mds(
    "mds",
    caps={"mon": "allow profile mds", "mgr": "allow profile mds", "osd": "allow rwx", "mds": "allow *"},
)
