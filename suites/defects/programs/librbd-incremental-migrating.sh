#!/usr/bin/env bash
# Shows that a list of the differences between two snapshots is empty while the image is being migrated. Needs a running
# cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd
# modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


def changed_bytes(ioctx, name):
    """The size of what differs between the snapshots s and t, by extents."""
    sizes = []
    with rbd.Image(ioctx, name, "t") as image:
        image.diff_iterate(0, image.size(), "s", lambda _offset, size, _exists: sizes.append(size))
    return sum(sizes)


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "i", 1 << 20)
    with rbd.Image(ioctx, "i") as image:
        image.create_snap("s")
        image.write(b"a" * 4096, 0)
        image.create_snap("t")
    before = changed_bytes(ioctx, "i")
    rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
    during = changed_bytes(ioctx, "j")
    rbd.RBD().migration_execute(ioctx, "j")
    rbd.RBD().migration_commit(ioctx, "j")
    after = changed_bytes(ioctx, "j")
said = "bytes between two snapshots: %d before a migration, %d during it, %d after it" % (before, during, after)
print("not seen" if before == during else "seen", said, sep=": ")
PYTHON
