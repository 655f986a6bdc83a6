#!/usr/bin/env bash
# Shows that a metadata server that is stopped while it purges deleted files never ends. Starts a cluster of its own: one
# monitor, one OSD, one metadata server.
#
# A purge must end while the server shuts its purge queue down. So the thread that ends purges gets next to no processor
# time until the server has begun to shut down; then it runs like any other.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

# stop_while_purging: deletes files, holds the server's thread back while it has purges to end, and sends SIGTERM.
stop_while_purging() {
  python3 - "${pid[mds.a]}" "$dir" <<'PYTHON'
import contextlib
import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path

import cephfs

FILES = 600
server, folder = int(sys.argv[1]), Path(sys.argv[2])
fork = multiprocessing.get_context("fork")  # no longer the default from Python 3.14 on


def purging():
    """Files that are being purged."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(folder / "mds.a.asok"))
        line.sendall(b'{"prefix": "perf dump", "logger": "purge_queue", "format": "json"}\0')
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    return json.loads(answer[4:])["purge_queue"]["pq_executing"]


def wait(ready, what):
    deadline = time.monotonic() + 60
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit("%s is not seen within 60 s" % what)
        time.sleep(0.001)


def joined():
    """Whether the server waits for the end of its thread: in a futex whose value is the thread's ID. Or has ended."""
    for path in Path("/proc").glob("%d/task/*/syscall" % server):
        with contextlib.suppress(OSError):  # that thread has just ended
            words = path.read_text().split()
            if len(words) > 3 and int(words[3], 16) == finisher:
                return True
    return not Path("/proc/%d/task/%d" % (server, finisher)).exists()


def spin():
    while True:
        pass


threads = {int(path.name): (path / "comm").read_text() for path in Path("/proc/%d/task" % server).iterdir()}
[finisher] = [thread for thread, name in threads.items() if re.match("(?i)(mds-)?pq", name)]
client = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"])
client.mount()
names = ["/%d-%d" % (server, number) for number in range(FILES)]
for name in names:
    file = client.open(name, "w", 0o644)
    client.write(file, b"a" * 4096, 0)
    client.close(file)
client.sync_fs()
for name in names:
    client.unlink(name)
wait(purging, "a purge")

cpu = min(os.sched_getaffinity(0))
for thread in threads:
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(thread, {cpu})
os.sched_setscheduler(finisher, os.SCHED_IDLE, os.sched_param(0))
busy = fork.Process(target=spin, daemon=True)
busy.start()
os.sched_setaffinity(busy.pid, {cpu})
time.sleep(1)
count = purging()
os.kill(server, signal.SIGTERM)
wait(joined, "the shutdown of the purge queue")
busy.kill()
with contextlib.suppress(ProcessLookupError):  # it has ended
    os.sched_setscheduler(finisher, os.SCHED_OTHER, os.sched_param(0))
print(count, flush=True)
os._exit(0)  # the client would wait for the server
PYTHON
}

active() { asked mds.a status | grep -q '"state": "up:active"'; }

configure a
start mon.a
make_osd
start osd.0
ceph auth caps client.admin mon "allow *" osd "allow *" mds "allow *" >"$dir/caps.out" 2>&1 || fail "no right to files"
ceph auth get-or-create mds.a mon "allow profile mds" osd "allow rwx" mds "allow *" >>"$dir/keyring" || fail "no key"
for pool in metadata data; do
  ceph osd pool create $pool 8 >"$dir/pool.out" 2>&1 || fail "the pool $pool was not made"
done
ceph fs new files metadata data >"$dir/fs.out" 2>&1 || fail "the file system was not made"
for try in 1 2 3; do
  # It does not wait for the client of the try before.
  start mds.a --mds_max_purge_ops_per_pg=1000 --mds_reconnect_timeout=1
  within 60 active || fail "mds.a does not serve"
  count=$(stop_while_purging 2>"$dir/client.out") || fail "mds.a was not stopped while it purged files"
  within 20 ended mds.a && word="not seen" said="it ended" || word=seen said="it had not ended after 20 s"
  if [ "$word" = seen ]; then break; fi
done
echo "$word: mds.a got SIGTERM with $count files being purged, in stop $try of 3; $said"
