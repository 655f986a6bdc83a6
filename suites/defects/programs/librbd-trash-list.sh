#!/usr/bin/env bash
# Shows that Python's RBD.trash_list fails while an image of the pool is being migrated. Needs a running cluster
# (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd modules.
set -euo pipefail

python3 - <<'PYTHON'
import os

import rados
import rbd

POOL = "defect-trash-list"

with rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")) as cluster:
    if POOL in cluster.list_pools():
        cluster.delete_pool(POOL)
    cluster.create_pool(POOL)
    try:
        with cluster.open_ioctx(POOL) as ioctx:
            rbd.RBD().create(ioctx, "i", 1 << 20)
            rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
            try:
                got = "%d entries" % len(list(rbd.RBD().trash_list(ioctx)))
            except IndexError as error:
                got = repr(error)
    finally:
        cluster.delete_pool(POOL)
print("not seen" if got == "1 entries" else "seen", "a pool's trash was listed during a migration: " + got, sep=": ")
PYTHON
