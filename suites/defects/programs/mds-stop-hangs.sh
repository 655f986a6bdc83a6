#!/usr/bin/env bash
# Shows that a metadata server that is stopped while it purges deleted files never ends. Starts a cluster of its own: one
# monitor, one OSD, one metadata server.
#
# The shutdown must take the purge queue's lock while the thread that ends purges has more of them to end. So that thread
# is held while it has, and is let go from system call to system call until the shutdown waits for the thread's end.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/small-cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/small-cluster.sh"

configure a
start mon.a --mds_beacon_grace=600
make_osd
start osd.0
ceph auth caps client.admin mon "allow *" osd "allow *" mds "allow *" >"$dir/caps.out" 2>&1 || fail "no right to files"
ceph auth get-or-create mds.a mon "allow profile mds" osd "allow rwx" mds "allow *" >>"$dir/keyring" || fail "no key"
for pool in metadata data; do
  ceph osd pool create $pool 8 >"$dir/pool.out" 2>&1 || fail "the pool $pool was not made"
done
ceph fs new files metadata data >"$dir/fs.out" 2>&1 || fail "the file system was not made"

python3 - "$dir" 2>"$dir/server.out" <<'PYTHON' || fail "the server was not stopped while it purged files"
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import cephfs

CONTINUE, DETACH, SYSCALL, SEIZE, INTERRUPT = 7, 17, 24, 0x4206, 0x4207  # of ptrace
ALL_THREADS = 0x40000000  # of waitpid
FUTEX = {"x86_64": "202", "aarch64": "98"}[os.uname().machine]
LIMITS = ("--mds_max_purge_files=1000", "--mds_max_purge_ops_per_pg=1000")
ENDS_S = 20
folder = Path(sys.argv[1])


def asked(command):
    """What the server answers to a command, {} while it does not listen yet."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(folder / "mds.a.asok"))
            line.sendall(json.dumps({**command, "format": "json"}).encode() + b"\0")
            return json.loads(b"".join(iter(lambda: line.recv(65536), b""))[4:])
    except (OSError, ValueError):
        return {}


def counter(name):
    """A counter of the purge queue."""
    return asked({"prefix": "perf dump", "logger": "purge_queue"})["purge_queue"]["pq_" + name]


def purging():
    """Files that are being purged."""
    return counter("executing")


def wait(ready, what):
    deadline = time.monotonic() + 60
    while not ready():
        if time.monotonic() > deadline or server.poll() is not None:
            raise SystemExit("%s was not seen" % what)
        time.sleep(0.01)


def trace(request):
    """A request to ptrace about the thread that ends purges. This process is the server's parent, so it may."""
    if ctypes.CDLL(None, use_errno=True).ptrace(request, thread, None, None) < 0:
        raise SystemExit("ptrace: " + os.strerror(ctypes.get_errno()))


def call(task):
    """The system call that a thread is in: its number, then its arguments, in hex. One word if it is in none."""
    return Path("/proc/%d/task/%d/syscall" % (server.pid, task)).read_text().split()


def step():
    """Let the thread run to the beginning or the end of its next system call."""
    trace(SYSCALL)
    os.waitpid(thread, ALL_THREADS)


def interrupted():
    """Let the thread run for a moment, and stop it again."""
    trace(CONTINUE)
    trace(INTERRUPT)
    os.waitpid(thread, ALL_THREADS)


def hold():
    """Stop the thread while it waits for a purge; once the OSD has done them all, let it end some. Returns those left."""
    trace(SEIZE)
    trace(INTERRUPT)
    os.waitpid(thread, ALL_THREADS)
    while call(thread)[0] != FUTEX or not purging():
        interrupted()
    wait(lambda: not asked({"prefix": "objecter_requests"})["ops"], "the OSD's last answer")
    ended = counter("executed")
    while counter("executed") == ended:
        interrupted()
    return purging()


def joined():
    """Whether the server waits for the end of that thread: in a futex, whose expected value is the thread's ID."""
    calls = [call(int(task.name)) for task in Path("/proc/%d/task" % server.pid).iterdir()]
    return any(len(words) > 3 and int(words[3], 16) == thread for words in calls)


signal.alarm(100)  # a thread that makes no more system calls would be waited for without end
server = subprocess.Popen(["ceph-mds", "-f", "-i", "a", *LIMITS], stdout=sys.stderr)
wait(lambda: asked({"prefix": "status"}).get("state") == "up:active", "an active server")
tasks = Path("/proc/%d/task" % server.pid).iterdir()
[thread] = [int(task.name) for task in tasks if re.match("(?i)(mds-)?pq", (task / "comm").read_text())]
client = cephfs.LibCephFS(conffile=os.environ["CEPH_CONF"])
client.mount()
names = ["/%d" % number for number in range(600)]
for name in names:
    file = client.open(name, "w", 0o644)
    client.write(file, b"a" * 4096, 0)
    client.close(file)
client.sync_fs()

for name in names:
    client.unlink(name)
wait(purging, "a purge")
count = hold()
if not count:
    raise SystemExit("the thread ended all purges at once")
server.send_signal(signal.SIGTERM)
wait(lambda: "shutting down rank" in (folder / "mds.a.log").read_text(), "the shutdown")
time.sleep(0.5)
while not joined():
    step()
    time.sleep(0.05)
trace(DETACH)
try:
    server.wait(ENDS_S)
    print("not seen: mds.a got SIGTERM with %d files being purged; it ended" % count, flush=True)
except subprocess.TimeoutExpired:
    print("seen: mds.a got SIGTERM with %d files being purged; it had not ended after %d s" % (count, ENDS_S), flush=True)
    server.kill()
os._exit(0)  # the client would wait for the server
PYTHON
