"""Whether a process is held is asked of the kernel below it, on every provider, emulated or not."""

import random

import pytest

from cephlab.lab.ceph.daemon import Daemon, states, stopped
from cephlab.lab.faults.fault import look_for
from cephlab.lab.providers.host import Host

pytestmark = pytest.mark.real

LOOK_S = 60.0


def test_a_held_daemon_is_told_from_one_that_runs(host: Host) -> None:
    # Its argument is its mark: nodes of a lab may share one machine, and it them with others.
    daemon = Daemon("mgr.held", host, ("sleep", f"{600 + random.random():.9f}"))
    daemon.start()
    try:
        assert look_for("a process", lambda: len(states(daemon)), timeout_s=LOOK_S).got
        assert not stopped(daemon)
        daemon.pause()
        assert look_for("held", lambda: int(stopped(daemon)), timeout_s=LOOK_S).got
        daemon.resume()
        assert look_for("released", lambda: int(not stopped(daemon)), timeout_s=LOOK_S).got
    finally:
        daemon.kill()
    assert states(daemon) == []
