"""A gateway over a real cluster: objects are put and got by S3, a stranger is refused, and nothing of it stays."""

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL, Gateway, emptied, gateway
from cephlab.lab.cluster.pools import EC_2_1
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.workloads import s3
from cephlab.lab.workloads.fio import Done
from cephlab.lab.workloads.s3 import RunningS3, S3Job
from tests.contract.raising import raised

pytestmark = pytest.mark.real

LOAD_S = 2.0
JOB = S3Job("put", "objects", objects=16, object_bytes=20_000, depth=4, runtime_s=60.0)


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    with raised(LocalProvider(), Topology(native=3, foreign=0, lone_client=True), home) as cluster:
        yield cluster


def answered(running: RunningS3) -> None:
    """Wait until a client has had an answer: before, it cannot be stopped with a result."""
    clock.wait(running.words, lambda said: "answered" in said, what="the first answer to S3", timeout_s=60)


def stopped(host: Host, endpoint: Gateway, operation: str) -> tuple[RunningS3, Done]:
    """A load that is stopped after a while, and what it did."""
    running = s3.start(host, endpoint, replace(JOB, operation=operation))
    answered(running)
    Deadline.after(LOAD_S).pause(LOAD_S)
    running.process.signal(signal.SIGINT)
    return running, running.finish().main


def test_objects_are_put_and_got_and_nothing_stays(cluster: Cluster) -> None:
    before = set(cluster.client.mon("osd pool ls"))
    host = cluster.client.host
    with gateway(cluster, host.name, EC_2_1) as endpoint:
        s3.fill(host, endpoint, JOB, patience=cluster.patience)
        assert cluster.client.list_objects(DATA_POOL)
        for operation in (s3.LIST, "get", "put"):  # a list counts what was filled in, before puts add to it
            running, done = stopped(host, endpoint, operation)
            assert done.operations == len(running.progress().times_s) > 0
            if operation != s3.LIST:
                assert done.bytes == done.operations * JOB.object_bytes
        with pytest.raises(CephTrouble, match="does not accept objects") as refused:
            s3.fill(host, replace(endpoint, secret_key="another"), JOB, patience=cluster.patience)
        assert "403" in refused.value.detail
        # Other than what is asked for is an error of the load, and not a fast answer.
        larger = s3.start(host, endpoint, replace(JOB, operation="get", object_bytes=JOB.object_bytes + 1))
        with pytest.raises(CephTrouble, match="of the S3 load") as wrong:
            larger.finish()
        assert "another size" in wrong.value.detail
        # Each put is of a new object.
        assert len(cluster.client.list_objects(DATA_POOL)) > JOB.objects
        # A load of deletes does nothing more when nothing is left of what it was told of.
        _, deleted = stopped(host, endpoint, s3.DELETE)
        assert deleted.operations == JOB.objects
        emptied(cluster, host.name)
        assert cluster.client.list_objects(DATA_POOL) == []
    assert set(cluster.client.mon("osd pool ls")) == before
    assert "client.rgw" not in str(cluster.client.mon("auth ls"))
    assert not host.exists(host.directory / "rgw")
