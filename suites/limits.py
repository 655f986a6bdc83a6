"""Limits of service: no errors, and no wait beyond what noticing a death takes."""

from __future__ import annotations

from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Recorder


def no_errors(recorder: Recorder, why: str) -> None:
    """No client may be refused anything. why: the reason that the verdict shows."""
    recorder.limit("client_errors", 0, "", why)


def wait_until_noticed(recorder: Recorder, cluster: Cluster, peering_s: float) -> None:
    """No operation may wait longer than it takes to notice a dead OSD and to peer without it.

    peering_s: what peering and the first operations afterwards may take, before patience.
    """
    grace = float(own(cluster).deployment.options["osd_heartbeat_grace"])
    high = grace + peering_s * cluster.patience
    why = f"osd_heartbeat_grace {grace:g} s, then {peering_s:g} s of peering times a patience of {cluster.patience:g}"
    recorder.limit("longest_wait_s", high, "s", why)
