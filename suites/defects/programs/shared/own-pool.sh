#!/usr/bin/env bash
# A pool of this program's own, for Python code.

# in_pool: runs Python from standard input. There own_pool() yields a connected cluster, and the pool as an IoCtx.
in_pool() {
  {
    cat <<'PYTHON'
import contextlib
import os

import rados

POOL = "defect-of-ceph"


@contextlib.contextmanager
def own_pool():
    with rados.Rados(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")) as cluster:
        if POOL in cluster.list_pools():
            cluster.delete_pool(POOL)
        cluster.create_pool(POOL)
        try:
            with cluster.open_ioctx(POOL) as ioctx:
                yield cluster, ioctx
        finally:
            cluster.delete_pool(POOL)


PYTHON
    cat
  } | python3 -
}
