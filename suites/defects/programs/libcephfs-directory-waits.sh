#!/usr/bin/env bash
# Shows that a client of CephFS that reads an opened directory waits for ever, where POSIX requires EISDIR.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

python3 - <<'PYTHON'
import errno
import multiprocessing
import os

import cephfs

CONF = os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")
WAITS_S = 20
FORKS = multiprocessing.get_context("fork")  # no longer the default from Python 3.14 on


def read_root(opened, answer):
    client = cephfs.LibCephFS(conffile=CONF)
    client.mount()
    directory = client.open("/", "r")
    opened.set()
    try:
        client.read(directory, 0, 1)
    except cephfs.OSError as error:
        answer.value = error.errno
    client.close(directory)
    client.unmount()
    client.shutdown()


opened, answer = FORKS.Event(), FORKS.Value("i", 0)
client = FORKS.Process(target=read_root, args=(opened, answer))
client.start()
if not opened.wait(60):
    client.kill()
    raise SystemExit("the directory could not be opened, so this is something else")
client.join(WAITS_S)
waits = client.is_alive()
client.kill()
client.join()
if not waits and (client.exitcode or answer.value != errno.EISDIR):
    raise SystemExit("error %d, exit code %s: so this is something else" % (answer.value, client.exitcode))
said = "it still waited after %d s" % WAITS_S if waits else "it was refused with EISDIR"
print("%s: a client read the root, which it had opened; %s" % ("seen" if waits else "not seen", said))
PYTHON
