#!/usr/bin/env bash
# Shows that an empty object is not created under the name of a removed object that a snapshot still has.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's
# rados module.
set -euo pipefail

python3 - <<'PYTHON'
import os

import rados

POOL = "defect-empty-object"

with rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")) as cluster:
    if POOL in cluster.list_pools():
        cluster.delete_pool(POOL)
    cluster.create_pool(POOL)
    try:
        with cluster.open_ioctx(POOL) as ioctx:
            ioctx.write_full("o", b"before")
            ioctx.create_snap("s")
            cluster.wait_for_latest_osdmap()
            ioctx.remove_object("o")
            ioctx.write_full("o", b"")
            try:
                left = "it has %d bytes" % ioctx.stat("o")[0]
            except rados.ObjectNotFound:
                left = "it is not there"
            ioctx.remove_snap("s")
    finally:
        cluster.delete_pool(POOL)
said = "an object was removed after a snapshot and written again with no bytes; " + left
print("not seen" if left == "it has 0 bytes" else "seen", said, sep=": ")
PYTHON
