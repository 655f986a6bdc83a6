#!/usr/bin/env bash
# Shows that an empty object is not created under the name of a removed object that a snapshot still has.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's
# rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
with own_pool() as (cluster, ioctx):
    ioctx.write_full("o", b"before")
    ioctx.create_snap("s")
    cluster.wait_for_latest_osdmap()
    ioctx.remove_object("o")
    ioctx.write_full("o", b"")
    try:
        left = "it has %d bytes" % ioctx.stat("o")[0]
    except rados.ObjectNotFound:
        left = "it is not there"
    ioctx.remove_snap("s")
said = "an object was removed after a snapshot and written again with no bytes; " + left
print("not seen" if left == "it has 0 bytes" else "seen", said, sep=": ")
PYTHON
