#!/usr/bin/env bash
# Shows that a deep copy lacks a snapshot that another client had made of the image before. Needs a running cluster
# (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import time

import rbd

SIZE = 1 << 20


def copied(image, ioctx, name):
    """Names of the snapshots of a deep copy, and its size."""
    image.deep_copy(ioctx, name)
    with rbd.Image(ioctx, name) as copy:
        return [snap["name"] for snap in copy.list_snaps()], copy.size()


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "i", SIZE)
    with rbd.Image(ioctx, "i") as one, rbd.Image(ioctx, "i") as other:
        one.write(b"before", 0)
        one.create_snap("s")
        one.resize(2 * SIZE)
        time.sleep(3)
        got = copied(other, ioctx, "copy")
        other.size()
        assert copied(other, ioctx, "again") == (["s"], 2 * SIZE), "it is complete once it knows the size"
print("not seen" if got == (["s"], 2 * SIZE) else "seen", "snapshots and size of the copy: %r" % (got,), sep=": ")
PYTHON
