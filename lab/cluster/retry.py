"""Repeats a command that Ceph refuses only for now."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cephlab.lab.base import clock
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.cluster.cluster import Cluster


def insist(
    cluster: Cluster, command: Callable[[], object], passing: Collection[int], *, what: str, timeout_s: float
) -> None:
    """Repeat a command until Ceph takes it. A dead daemon ends the wait at once.

    passing: errnos that only mean "not yet"; any other refusal is raised. timeout_s: before patience. NotReached has
    Ceph's last refusal.
    """

    def objection() -> str:
        cluster.check_daemons()
        try:
            command()
        except CephCommandFailed as error:
            if -error.code not in passing:
                raise
            return error.status or str(error)
        return ""

    clock.wait(objection, lambda said: not said, what=what, timeout_s=timeout_s * cluster.patience)
