"""Whether a process is held, and what it holds, is asked of the kernel below it, on every provider, emulated or not."""

import random
from signal import SIGUSR1

import pytest

from cephlab.lab.ceph.daemon import Daemon, states, stopped
from cephlab.lab.ceph.memory import grown, holdings
from cephlab.lab.faults.fault import look_for
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import MIB
from tests.contract.probes import scratch

pytestmark = pytest.mark.real

LOOK_S = 60.0

TAKES_MORE_MIB, TAKES_MORE_FILES, TAKES_MORE_THREADS = 48, 40, 12
TAKES_MORE = """
import os, signal, sys, threading, time
def tell(name):  # while a file is made it is one more that is open
    open(name + ".new", "w").close()
    os.rename(name + ".new", name)
mib, files, threads = map(int, sys.argv[2:])
kept = []
def more(*_):
    kept.append(bytearray(b"x" * (mib << 20)))
    kept.extend(open("/dev/null") for _ in range(files))
    for _ in range(threads):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    tell(sys.argv[1])
signal.signal(signal.SIGUSR1, more)
tell(sys.argv[1] + ".ready")
while True:
    time.sleep(1)
"""


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
    assert look_for("gone", lambda: int(not states(daemon)), timeout_s=LOOK_S).got


def test_what_a_daemon_takes_more_is_seen(host: Host) -> None:
    done = scratch(host)
    takes = tuple(map(str, (TAKES_MORE_MIB, TAKES_MORE_FILES, TAKES_MORE_THREADS)))
    daemon = Daemon("mgr.grows", host, ("python3", "-c", TAKES_MORE, str(done), *takes))
    daemon.start()
    try:
        ready = done.with_name(f"{done.name}.ready")
        assert look_for("a program that is ready", lambda: int(host.exists(ready)), timeout_s=LOOK_S).got
        before = holdings([daemon])
        daemon.started().signal(SIGUSR1)
        assert look_for("that it took more", lambda: int(host.exists(done)), timeout_s=LOOK_S).got
        more = grown(before, holdings([daemon]))["mgr.grows"]
    finally:
        daemon.kill()
    by = {what: after - was for what, (was, after) in more.items()}
    assert by["threads"] == TAKES_MORE_THREADS
    assert by["files"] == TAKES_MORE_FILES
    assert TAKES_MORE_MIB * MIB <= by["resident"] < 2.5 * TAKES_MORE_MIB * MIB
    assert holdings([daemon]) == {}
