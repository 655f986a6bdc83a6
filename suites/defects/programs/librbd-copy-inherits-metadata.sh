#!/usr/bin/env bash
# Shows that a deep copy and a migration of a clone add metadata that its parent has and the clone does not. Needs a
# running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and
# rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


def metadata(ioctx, name):
    with rbd.Image(ioctx, name) as image:
        return dict(image.metadata_list())


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "parent", 1 << 20)
    with rbd.Image(ioctx, "parent") as image:
        image.create_snap("s")
        image.protect_snap("s")
    rbd.RBD().clone(ioctx, "parent", "s", ioctx, "clone")
    with rbd.Image(ioctx, "parent") as image:
        image.metadata_set("owner", "parent")
    before = metadata(ioctx, "clone")
    with rbd.Image(ioctx, "clone") as image:
        image.deep_copy(ioctx, "copy")
    rbd.RBD().migration_prepare(ioctx, "clone", ioctx, "moved")
    copied, moved = metadata(ioctx, "copy"), metadata(ioctx, "moved")
said = "metadata of a clone: %s; of its deep copy: %s; after a migration: %s" % (before, copied, moved)
print("not seen" if before == copied == moved else "seen", said, sep=": ")
PYTHON
