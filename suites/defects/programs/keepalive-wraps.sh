#!/usr/bin/env bash
# Shows that a client leaves its monitor because it answered a keepalive at once: "no keepalive since" a time to come.
# Takes a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) and Python's rados module.
set -euo pipefail

python3 - <<'PYTHON'
import os
import signal
import tempfile
import time

import rados

TRIED_S = 20
PING_S = 0.02  # between two keepalives, in place of 10 s: as many in 20 s as in nearly three hours



def burn():
    """Start a process that only takes its part of a processor; its id."""
    child = os.fork()
    while child == 0:
        pass
    return child


# Beside others on one processor, the thread that has sent a keepalive waits while its answer comes.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
others = [burn() for _ in range(3)]
with tempfile.NamedTemporaryFile(mode="r") as log:
    cluster = rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf"))
    for name, value in {"debug_monc": "1", "log_file": log.name, "mon_client_ping_interval": str(PING_S)}.items():
        cluster.conf_set(name, value)
    try:
        cluster.connect()
        time.sleep(TRIED_S)
    finally:
        cluster.shutdown()
        for other in others:
            os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)
    wrapped = [line for line in log if "no keepalive since" in line and "(2106-" in line]
if wrapped:
    print(f"seen: {len(wrapped)} times in {TRIED_S} s: {wrapped[0].split('monclient: ')[-1].strip()}")
else:
    print(f"not seen: no session was given up in {TRIED_S} s of a keepalive each {PING_S} s")
PYTHON
