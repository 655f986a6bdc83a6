"""Daemons that grow around a scenario are told, in containers and in guests as among this machine's processes."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from signal import SIGKILL
from typing import Any

import pytest

from cephlab.fixtures.raising import LabCluster
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.home import Home
from cephlab.lab.checks.aftermath import MOST_GROWN, aftermath
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.faults.fault import look_for
from cephlab.lab.history.history import History
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.topology import Topology
from tests.contract.probes import python, scratch
from tests.contract.raising import raised

pytestmark = pytest.mark.real

OPENED = MOST_GROWN["files"] + 100
LOOK_S = 60.0
CONNECTS = """
import socket, sys, time
links = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(int(sys.argv[3]))]
open(sys.argv[4], "w").close()
time.sleep(600)
"""


@contextmanager
def many_connections(cluster: OwnCluster) -> Iterator[str]:
    """So many connections to a monitor that say nothing; its name."""
    (monitor, *_) = cluster.client.mon("mon dump")["mons"]
    address, _, port = monitor["public_addrs"]["addrvec"][0]["addr"].rpartition(":")
    host, ready = cluster.client.host, scratch(cluster.client.host)
    program = host.spawn(python(CONNECTS, address, port, str(OPENED), str(ready)), log=scratch(host))
    try:
        assert look_for("all connections", lambda: int(host.exists(ready)), timeout_s=LOOK_S).got
        SYSTEM.sleep(2)
        yield f"mon.{monitor['name']}"
    finally:
        program.signal(SIGKILL)


def judged(data: dict[str, Any]) -> Verdict:
    """By all but lines of logs."""
    recorder = History().recorder("demo.x")
    recorder.record("aftermath", **{**data, "complaints": []})  # Debian's own, which the suites' list allows
    verdict = aftermath(recorder.events())
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("name", ["container", "uml"])
def test_a_monitor_that_keeps_files_open_fails_the_scenario(name: str, home: Home) -> None:
    with raised(provider(name), Topology(native=2, foreign=0), home) as cluster:
        stand = LabCluster(cluster, {"raise_s": None}, ExitStack(), SYSTEM.monotonic())
        stand.wait_healthy()
        sound = stand.aftermath(stand.before(), (), settle=True)
        assert sound["held"].keys() >= cluster.daemons.keys()
        assert all({"resident", "threads", "files", "stored"} <= held.keys() for held in sound["held"].values())
        assert judged(sound).outcome is Outcome.PASS, judged(sound)
        before = stand.before()
        with many_connections(cluster) as monitor:
            verdict = judged(stand.aftermath(before, (), settle=True))
    assert verdict.outcome is Outcome.FAIL
    assert f"{monitor} has" in verdict.reason
    assert "open files more than before the scenario" in verdict.reason
