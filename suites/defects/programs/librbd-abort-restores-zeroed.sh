#!/usr/bin/env bash
# Shows that data that was zeroed during a migration is back after the migration was aborted, while data that was
# written stays. Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed,
# and Python's rados and rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "i", 1 << 20)
    with rbd.Image(ioctx, "i") as image:
        image.write(b"a" * 8192, 0)
    rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
    with rbd.Image(ioctx, "j") as image:
        image.write(b"b" * 4096, 0)
        image.write_zeroes(4096, 4096)
        before = image.read(0, 8192)
    rbd.RBD().migration_abort(ioctx, "j")
    with rbd.Image(ioctx, "i") as image:
        after = image.read(0, 8192)
written, zeroed = after[:4096] == before[:4096], after[4096:] == before[4096:]
said = "after an aborted migration, what was written in it is there: %s; what was zeroed: %s" % (written, zeroed)
print("not seen" if zeroed or not written else "seen", said, sep=": ")
PYTHON
