#!/usr/bin/env bash
# Shows that an operation that removes an object, writes it and removes it again leaves the object as it was before.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's
# rados module.
set -euo pipefail

python3 - <<'PYTHON'
import os

import rados

POOL = "defect-removed-stays"

with rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")) as cluster:
    if POOL in cluster.list_pools():
        cluster.delete_pool(POOL)
    cluster.create_pool(POOL)
    try:
        with cluster.open_ioctx(POOL) as ioctx:
            ioctx.write_full("o", b"before")
            with rados.WriteOpCtx() as operation:
                operation.remove()
                operation.write(b"between", 0)
                operation.remove()
                ioctx.operate_write_op(operation, "o")
            try:
                left = "it holds %r" % ioctx.read("o")
            except rados.ObjectNotFound:
                left = "it is gone"
    finally:
        cluster.delete_pool(POOL)
said = "an object was removed, written and removed in one operation; " + left
print("not seen" if left == "it is gone" else "seen", said, sep=": ")
PYTHON
