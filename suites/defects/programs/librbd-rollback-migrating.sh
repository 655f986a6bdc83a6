#!/usr/bin/env bash
# Shows that a rollback of an image that is being migrated changes nothing. Needs a running cluster (CEPH_CONF, or
# /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "i", 1 << 20)
    with rbd.Image(ioctx, "i") as image:
        image.write(b"a" * 9, 0)
        image.create_snap("s")
        image.write(b"b" * 9, 0)
    rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
    with rbd.Image(ioctx, "j") as image:
        image.rollback_to_snap("s")
        got = image.read(0, 9)
said = "an image that held a at a snapshot and b later was rolled back during a migration; it holds %r" % got
print("not seen" if got == b"a" * 9 else "seen", said, sep=": ")
PYTHON
