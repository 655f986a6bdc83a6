#!/usr/bin/env bash
# Shows that an image that is made smaller and larger again during a migration holds what was cut off. Needs a running
# cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd
# modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


def resized(ioctx, name):
    """The data of an image of 8192 bytes after it was cut to nothing and made as large as before."""
    with rbd.Image(ioctx, name) as image:
        image.resize(0)
        image.resize(8192)
        return image.read(0, 8192)


with own_pool() as (_, ioctx):
    for name in ("settled", "i"):
        rbd.RBD().create(ioctx, name, 8192, 12, old_format=False)
        with rbd.Image(ioctx, name) as image:
            image.write(b"a" * 8192, 0)
    without = resized(ioctx, "settled")
    rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
    got = resized(ioctx, "j")
    rbd.RBD().migration_execute(ioctx, "j")
    rbd.RBD().migration_commit(ioctx, "j")
    with rbd.Image(ioctx, "j") as image:
        later = image.read(0, 8192)
sizes = [len(data) - data.count(0) for data in (without, got, later)]
said = "bytes that are back after a cut to 0: %d without a migration, %d during one, %d after it" % tuple(sizes)
print("seen" if sizes[0] == 0 and sizes[1] + sizes[2] else "not seen", said, sep=": ")
PYTHON
