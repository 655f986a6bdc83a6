"""Limits of service: no errors, and no wait longer than noticing a dead OSD takes."""

from cephlab.lab.ceph.daemon import STOP_S
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


def stop_noted(cluster: Cluster, recorder: Recorder, name: str) -> None:
    """Stop a daemon; where it had to be killed, see `Cluster.stop_or_kill`, the history has it as a defect."""
    if not cluster.stop_or_kill(name):
        note_killed(recorder, name)


def note_killed(recorder: Recorder, name: str) -> None:
    """Record a daemon that did not stop: a defect of Ceph's, which the scenario outlives."""
    recorder.record("defect", daemon=name, seen=f"it did not stop in {STOP_S:g} s", done="killed")
