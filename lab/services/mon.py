"""The service of monitors."""

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.services.service import Service


class Mon(Service):
    """A monitor. All monitors share one cephx entity."""

    def entity(self, ident: str) -> str:
        return "mon."

    def lost(self, client: RadosClient, ident: str) -> bool:
        return ident not in client.mon("quorum_status")["quorum_names"]


MON = Mon("mon", caps={"mon": "allow *"})
