"""Asks Ceph again for what it refuses only for now."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cephlab.lab.base import clock
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.cluster.cluster import Cluster


def insist(
    cluster: Cluster, command: Callable[[], object], passing: Collection[int], *, what: str, timeout_s: float
) -> None:
    """Returns once Ceph took the command; a dead daemon ends the wait at once.

    passing: the errnos that only mean "not yet"; a refusal with any other is raised. timeout_s is before patience;
    NotReached has Ceph's last words.
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
