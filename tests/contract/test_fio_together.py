"""fio's client/server between machines that ssh enters: one start, right sums, a client that fails, nothing left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId, Runs
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import load_inventory
from cephlab.lab.workloads import fioserver
from cephlab.lab.workloads.fio import FioJob
from tests.contract import other_load
from tests.contract.standing import Standing, attached

pytestmark = [pytest.mark.real]

ROOT = Path(__file__).resolve().parents[2]
POOL = "together"
NATIVE = ("n0", "n1")
IMAGE_BYTES = 32 << 20
BLOCK_BYTES = 4096
SECONDS = 4.0
TOGETHER_S = 1.0
"""Of fio's own start; each job then opens its image, which takes as long as it takes on the machine at that time."""

TIMEOUT_S = 180.0


@contextmanager
def loaded(stands: Standing, home: Home) -> Iterator[AttachedCluster]:
    """Attached with a pool of the run's own; the machines with daemons are client machines too."""
    path = stands.inventory.with_name("more-clients.toml")
    path.write_text(stands.inventory.read_text().replace('"osd"', '"osd", "client"'))
    hosts = frozenset(stands.cluster.hosts)
    with attached(stands, home, path, pools=frozenset({POOL}), hosts=hosts) as cluster, pools.pool(cluster, POOL):
        yield cluster


def job(cluster: AttachedCluster, node: str, *, image: bool = True) -> FioJob:
    if image:
        cluster.client.rbd_create(POOL, node, IMAGE_BYTES)
    return FioJob(
        name="together",
        pool=POOL,
        target=node,
        pattern="randread",  # writes would go on when the job has ended, and hold up the next one's start
        block_bytes=BLOCK_BYTES,
        depth=4,
        size_bytes=IMAGE_BYTES,
        runtime_s=SECONDS,
        options={"rbd_cache": "false"},
        client=cluster.client_name,
    )


def opening_s(cluster: AttachedCluster) -> float:
    """What opening an image takes at most now, on all machines at once."""

    def one(node: str) -> float:
        began = time.monotonic()
        cluster.tool(node, "rbd", "--pool", POOL, "info", node)
        return time.monotonic() - began

    with Workers(max_workers=len(NATIVE)) as workers:
        return max(workers.map(one, NATIVE))


def fio_processes(stands: Standing, node: str) -> list[str]:
    """Of the fio that tests of this module start; others on this machine have other folders."""
    lines = stands.yard.look(node, "ps", "-eo", "pid=,args=").stdout.splitlines()
    return [line for line in lines if "fio" in line and "/var/tmp/cephlab-" in line]


def assert_none_left(stands: Standing) -> None:
    left = [line for node in NATIVE for line in fio_processes(stands, node)]
    assert left == []


def test_one_client_starts_all_and_sums_up(stands: Standing, home: Home) -> None:
    with loaded(stands, home) as cluster:
        jobs = [(cluster.hosts[node], job(cluster, node)) for node in NATIVE]
        before_s = opening_s(cluster)
        done = fioserver.run(jobs, timeout_s=TIMEOUT_S)
        first, second = done.require()
        assert done.everyone is not None, "they ran side by side"
        assert min(first.began_s, second.began_s) > 0
        assert abs(first.began_s - second.began_s) < TOGETHER_S + max(before_s, opening_s(cluster))
        both = done.everyone.read
        assert min(first.read.operations, second.read.operations) > 0
        assert both.operations == first.read.operations + second.read.operations
        assert both.bytes == first.read.bytes + second.read.bytes == both.operations * BLOCK_BYTES
        assert both.seconds == max(first.read.seconds, second.read.seconds)
        assert both.iops == pytest.approx(both.operations / both.seconds, rel=0.01)
        assert_none_left(stands)


def test_clients_of_both_architectures_load_together(stands: Standing, home: Home) -> None:
    with loaded(stands, home) as cluster:
        nodes = [cluster.host_with(arch).name for arch in Arch]
        done = fioserver.run([(cluster.hosts[node], job(cluster, node)) for node in nodes], timeout_s=TIMEOUT_S)
        results = done.require()
        assert done.everyone is not None
        assert done.everyone.operations == sum(result.operations for result in results)
        assert all(result.operations > 0 for result in results)


def test_a_client_that_fails_is_named_and_the_others_count(stands: Standing, home: Home) -> None:
    with loaded(stands, home) as cluster:
        good, bad = job(cluster, "n0"), job(cluster, "n1", image=False)
        done = fioserver.run([(cluster.hosts["n0"], good), (cluster.hosts["n1"], bad)], timeout_s=TIMEOUT_S)
        assert done.results[0].read.operations > 0
        assert list(done.failed) == [1]
        assert done.everyone is None
        with pytest.raises(LabBroken, match="fio failed on n1") as caught:
            done.require()
        assert "s1" in caught.value.detail


def test_too_long_a_load_is_ended(stands: Standing, home: Home) -> None:
    with loaded(stands, home) as cluster:
        jobs = [(cluster.hosts[node], replace(job(cluster, node), runtime_s=300.0)) for node in NATIVE]
        with pytest.raises(LabBroken, match="fio"):
            fioserver.run(jobs, timeout_s=8)
        assert_none_left(stands)


def test_fio_ends_with_the_process_that_had_it_started(stands: Standing, home: Home) -> None:
    path = stands.inventory.with_name("more-clients.toml")
    path.write_text(stands.inventory.read_text().replace('"osd"', '"osd", "client"'))
    argv = [sys.executable, other_load.__file__, str(path), str(home.path), *NATIVE]
    owner = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)
    with owner:
        assert owner.stdout is not None
        run_id = RunId(owner.stdout.readline().decode().strip())
        try:
            clock.wait(lambda: running(stands), all, what="fio on both machines", timeout_s=120, interval_s=0.5)
        finally:
            owner.send_signal(signal.SIGKILL)
    try:
        clock.wait(lambda: running(stands), lambda there: not any(there), what="the end of fio", timeout_s=30)
    finally:
        inventory = load_inventory(path)
        assert SshProvider(lambda: inventory).prune(home, run_id) != []
        stands.cluster.client.mon("auth rm", entity=f"client.cephlab-{run_id}")
        pools.delete(stands.cluster, other_load.POOL)
        Runs(home).forget(Run(run_id, home.runs / run_id))


def running(stands: Standing) -> list[bool]:
    """Whether a server of fio is at work on each machine: it has a child for each job."""
    return [len(fio_processes(stands, node)) > 1 for node in NATIVE]
