"""Samples a cluster's status into a scenario's history: recovery, degraded objects, health."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph.status import Status, parse_status
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder

EVENT = "sample"
PERIOD_S = 0.5


@contextmanager
def watched(cluster: Cluster, recorder: Recorder, period_s: float = PERIOD_S) -> Iterator[None]:
    """Record a `sample` event every period_s seconds inside the block, by a separate client.

    A failed request is recorded too, with its reason: monitors without a quorum do not answer.
    """
    node = cluster.client.host.name
    stopping = threading.Event()
    client = cluster.new_client(node, options={"rados_mon_op_timeout": "5"})

    def sample() -> None:
        while not stopping.wait(period_s):
            try:
                recorder.record(EVENT, **figures(parse_status(client.mon("status"))))
            except CephTrouble as error:
                recorder.record(EVENT, unavailable=error.what)

    thread = threading.Thread(target=sample, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        client.close()


def figures(status: Status) -> dict[str, object]:
    """The figures of a sample."""
    return {
        "health": status.health,
        "osds_up": status.osds_up,
        "osds_in": status.osds_in,
        "degraded": status.degraded_objects,
        "misplaced": status.misplaced_objects,
        "unfound": status.unfound_objects,
        "recovering_bytes_s": status.recovering_bytes_s,
        "clean": status.clean,
    }
