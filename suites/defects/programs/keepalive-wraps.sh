#!/usr/bin/env bash
# Shows that a client leaves its monitor because it answered a keepalive at once: "no keepalive since" a future time.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) and Python's rados module.
set -euo pipefail

python3 - <<'PYTHON'
import os
import signal
import tempfile
import time
from pathlib import Path

import rados

TRIED_S = 20
PING_S = 0.02  # between two keepalives, instead of 10 s
TIMER = "safe_timer"  # the name of several threads, one of which runs MonClient::tick


def burn():
    """Start a process that only uses its share of a processor. Returns its process id."""
    child = os.fork()
    while child == 0:
        pass
    return child


def yield_to_others(name):
    """Let this process's threads with a name run only when nothing else wants the processor, as on a busy machine."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text().strip() == name]
    for task in tasks:
        os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))
    return len(tasks)


# On one processor with other work, the thread that has sent a keepalive waits while the answer arrives.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
other = burn()
with tempfile.NamedTemporaryFile(mode="r") as log:
    cluster = rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf"))
    for name, value in {"debug_monc": "1", "log_file": log.name, "mon_client_ping_interval": str(PING_S)}.items():
        cluster.conf_set(name, value)
    try:
        cluster.connect()
        if not yield_to_others(TIMER):
            raise SystemExit(f"librados has no thread called {TIMER}")
        time.sleep(TRIED_S)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
        cluster.shutdown()
    wrapped = [line for line in log if "no keepalive since" in line and "(2106-" in line]
if wrapped:
    print(f"seen: {len(wrapped)} times in {TRIED_S} s: {wrapped[0].split('monclient: ')[-1].strip()}")
else:
    print(f"not seen: no session was given up in {TRIED_S} s of a keepalive each {PING_S} s")
PYTHON
