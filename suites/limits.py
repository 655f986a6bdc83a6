"""Limits of service: no errors, and no wait longer than noticing a dead OSD takes; and a stop that ends."""

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Recorder


def no_errors(recorder: Recorder, why: str) -> None:
    """Limit the errors of clients to none. why: the reason that the verdict shows."""
    recorder.limit("client_errors", 0, "", why)


def wait_until_noticed(recorder: Recorder, cluster: Cluster, peering_s: float) -> None:
    """Limit every wait to the time that noticing a dead OSD takes, and peering without it.

    peering_s: for peering and the first operations afterwards, before patience.
    """
    grace = float(own(cluster).deployment.options["osd_heartbeat_grace"])
    why = f"osd_heartbeat_grace {grace:g} s, then {peering_s:g} s of peering times a patience of {cluster.patience:g}"
    recorder.limit("longest_wait_s", grace + peering_s * cluster.patience, "s", why)


def stop_server(cluster: Cluster, name: str) -> bool:
    """Stop a daemon; whether it ended by itself. A metadata server that does not is killed, as systemd does it.

    `defects.mds-stop-hangs`: one that deletes files may wait for ever.
    """
    daemon = cluster.daemon(name)
    if daemon.kind != "mds":
        cluster.stop(name)
        return True
    try:
        daemon.stop()
    except LabBroken:
        cluster.kill(name)
        return False
    cluster.daemons_changed()
    return True
