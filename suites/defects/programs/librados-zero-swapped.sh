#!/usr/bin/env bash
# Shows that Python's WriteOp.zero(offset, length) passes the length to librados as the offset. Needs a running cluster
# (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados module.
set -euo pipefail

python3 - <<'PYTHON'
import os

import rados

POOL = "defect-librados-zero"
SIZE, OFFSET, LENGTH = 2023, 7605, 1199  # zeroing beyond the object's end must change nothing

with rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")) as cluster:
    if POOL in cluster.list_pools():
        cluster.delete_pool(POOL)
    cluster.create_pool(POOL)
    try:
        with cluster.open_ioctx(POOL) as ioctx:
            ioctx.write_full("o", b"a" * SIZE)
            with rados.WriteOpCtx() as operation:
                operation.zero(OFFSET, LENGTH)
                ioctx.operate_write_op(operation, "o")
            size, _ = ioctx.stat("o")
            left = ioctx.read("o", SIZE).count(b"a")
    finally:
        cluster.delete_pool(POOL)
said = f"zero({OFFSET}, {LENGTH}) of an object of {SIZE} bytes left {size} bytes, {left} of them its own"
print("not seen" if (size, left) == (SIZE, SIZE) else "seen", said, sep=": ")
PYTHON
