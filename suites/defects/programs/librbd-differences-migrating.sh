#!/usr/bin/env bash
# Shows that the object map hides a change of an image that was made, between two snapshots, during a migration. Needs a
# running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and
# rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


def differences(image, whole):
    found = []
    image.diff_iterate(0, image.size(), "s", lambda *extent: found.append(extent), whole_object=whole)
    return found


with own_pool() as (_, ioctx):
    fast = rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF | rbd.RBD_FEATURE_EXCLUSIVE_LOCK
    rbd.RBD().create(ioctx, "i", 1 << 14, 12, old_format=False, features=fast | rbd.RBD_FEATURE_LAYERING)
    with rbd.Image(ioctx, "i") as image:
        image.write(b"a" * 4096, 4096)
    rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
    with rbd.Image(ioctx, "j") as image:
        image.create_snap("s")
        image.write_zeroes(4096, 4096)
        image.create_snap("t")
    rbd.RBD().migration_execute(ioctx, "j")
    rbd.RBD().migration_commit(ioctx, "j")
    with rbd.Image(ioctx, "j", "s") as image:
        before = image.read(4096, 4096)
    with rbd.Image(ioctx, "j", "t") as image:
        after, slow, fast = image.read(4096, 4096), differences(image, False), differences(image, True)
said = "content changed: %s; differences by extents %s, by whole objects %s" % (before != after, slow, fast)
print("not seen" if before == after or (slow and fast) else "seen", said, sep=": ")
PYTHON
