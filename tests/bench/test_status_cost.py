"""What one question for the status costs: the `ceph` command, its interactive mode, and the lab's librados client."""

import os
import resource
from collections.abc import Callable

import psutil
import pytest
from rich.console import Console
from rich.table import Table

from cephlab.lab.base.home import default_home
from cephlab.lab.base.process import Pipe
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.raising import raise_cluster
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.select import choose
from cephlab.lab.scenario.topology import Topology

pytestmark = pytest.mark.bench

RELEASE = "reef"
COMMANDS = 5
INTERACTIVE = 20
QUESTIONS = 200


def test_cost_of_one_status() -> None:
    home = default_home().ensure()
    spec = Topology(native=1, foreign=0).spec(RELEASE)
    images = {arch: ImageStore(home).get(RELEASE, arch) for arch in spec.archs}
    runs = Runs(home)
    run = runs.create("local")
    try:
        with raise_cluster(choose("local", spec).provider, spec, images, run) as cluster:
            cluster.wait_healthy()
            costs = {
                "ceph status, a process each": by_command(cluster),
                "ceph, interactive, one process": by_interactive(cluster),
                "librados client, one process": by_client(cluster),
            }
    finally:
        runs.forget(run)
    table = Table("way", "CPU ms a status", title="CPU time of the asking side, user and system")
    for way, cost_s in costs.items():
        table.add_row(way, f"{cost_s * 1000:.1f}")
    Console(width=100).print(table)
    assert min(costs.values()) == costs["librados client, one process"]


def by_command(cluster: Cluster) -> float:
    def ask() -> None:
        for _ in range(COMMANDS):
            cluster.tool("n0", "ceph", "status", "--format", "json")

    return children_s(ask) / COMMANDS


def by_interactive(cluster: Cluster) -> float:
    """Its start is not counted: the difference between many questions and one."""

    def ask(times: int) -> Callable[[], None]:
        lines = b"status -f json\n" * times
        return lambda: print(cluster.tool("n0", "ceph", stdin=lines)[:0], end="")

    return (children_s(ask(INTERACTIVE)) - children_s(ask(1))) / (INTERACTIVE - 1)


def by_client(cluster: Cluster) -> float:
    client = cluster.client
    assert isinstance(client.channel, Pipe)
    agent = psutil.Process(client.channel.pid)
    before, mine = agent.cpu_times(), os.times()
    for _ in range(QUESTIONS):
        cluster.status()
    after, mine_after = agent.cpu_times(), os.times()
    theirs = after.user + after.system - before.user - before.system
    return (theirs + mine_after.user + mine_after.system - mine.user - mine.system) / QUESTIONS


def children_s(action: Callable[[], None]) -> float:
    """CPU seconds of the processes that an action starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
