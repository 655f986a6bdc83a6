#!/usr/bin/env bash
# Shows that a client of CephFS truncates a directory, where POSIX requires EISDIR.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

python3 - <<'PYTHON'
import errno
import os

import cephfs

FOLDER, NAME = "/defect-truncated-%d" % os.getpid(), "/kept"

client = cephfs.LibCephFS(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf"))
client.mount()
client.mkdir(FOLDER, 0o755)
try:
    client.mkdir(FOLDER + NAME, 0o755)
    error = 0
    try:
        client.truncate(FOLDER, 0)
    except cephfs.OSError as refused:
        error = refused.errno
    client.stat(FOLDER + NAME)
    client.rmdir(FOLDER + NAME)
finally:
    client.rmdir(FOLDER)
    client.unmount()
    client.shutdown()
if error not in (0, errno.EISDIR):
    raise SystemExit("error %d, so this is something else" % error)
said = "it was refused with EISDIR" if error else "it succeeded, and what is in the directory is still there"
print("%s: a client truncated a directory to 0 bytes; %s" % ("not seen" if error else "seen", said))
PYTHON
