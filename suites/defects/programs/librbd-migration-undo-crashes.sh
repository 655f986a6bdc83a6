#!/usr/bin/env bash
# Shows that a client crashes while it undoes a migration that it cannot prepare: that of an image whose clone is being
# migrated. Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and
# Python's rados and rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import signal
import subprocess

import rbd

PREPARE = """
import os, rados, rbd
cluster = rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf"))
cluster.connect()
ioctx = cluster.open_ioctx("%s")
rbd.RBD().migration_prepare(ioctx, "parent", ioctx, "moved")
"""

with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "parent", 1 << 20)
    with rbd.Image(ioctx, "parent") as image:
        image.create_snap("s")
        image.protect_snap("s")
    rbd.RBD().clone(ioctx, "parent", "s", ioctx, "clone")
    rbd.RBD().migration_prepare(ioctx, "clone", ioctx, "clone")
    client = subprocess.run(["python3", "-c", PREPARE % POOL], stderr=subprocess.PIPE, check=False)
crashed = client.returncode in (-signal.SIGSEGV, 128 + signal.SIGSEGV)
last = (client.stderr.decode().strip().splitlines() or ["nothing"])[-1]
said = "with a clone in migration, a client that prepared that of its parent ended with status %d" % client.returncode
print("seen" if crashed else "not seen", "%s; it printed last: %s" % (said, last), sep=": ")
PYTHON
