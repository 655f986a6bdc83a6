#!/usr/bin/env bash
# Shows that a copy of an open image never ends if another client made a snapshot of the image before. Needs a running
# cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd
# modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import sys
import time
from concurrent import futures

import rbd

COPY_S = 20
"""A copy of the same image by a client that knows the snapshot takes less than a second."""


def seconds_of(copy):
    began = time.monotonic()
    copy.result(COPY_S)
    return time.monotonic() - began


with own_pool() as (cluster, ioctx), futures.ThreadPoolExecutor() as threads:
    rbd.RBD().create(ioctx, "i", 1 << 20)
    maker, other = rbd.Image(ioctx, "i"), rbd.Image(ioctx, "i")
    maker.write(b"data", 0)
    maker.create_snap("s")
    time.sleep(3)
    other.size()
    known = seconds_of(threads.submit(other.copy, ioctx, "of what it knows"))
    maker.create_snap("t")
    time.sleep(3)
    try:
        took = seconds_of(threads.submit(other.copy, ioctx, "copy"))
        said = "not seen: copies took %.1f s and %.1f s" % (known, took)
    except futures.TimeoutError:
        said = "seen: a copy took %.1f s, the next did not end in %d s" % (known, COPY_S)
    print(said)
    if said.startswith("seen"):
        cluster.delete_pool(POOL)
        sys.stdout.flush()
        os._exit(0)  # the image cannot be closed
    maker.close()
    other.close()
PYTHON
