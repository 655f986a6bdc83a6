#!/usr/bin/env bash
# Shows that Python's RBD.trash_list fails while an image of the pool is being migrated. Needs a running cluster
# (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import rbd


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "i", 1 << 20)
    rbd.RBD().migration_prepare(ioctx, "i", ioctx, "j")
    try:
        got = "%d entries" % len(list(rbd.RBD().trash_list(ioctx)))
    except IndexError as error:
        got = repr(error)
print("not seen" if got == "1 entries" else "seen", "a pool's trash was listed during a migration: " + got, sep=": ")
PYTHON
