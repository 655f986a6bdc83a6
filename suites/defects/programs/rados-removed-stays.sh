#!/usr/bin/env bash
# Shows that an operation that removes an object, writes it and removes it again leaves the object as it was before.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's
# rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
with own_pool() as (_, ioctx):
    ioctx.write_full("o", b"before")
    with rados.WriteOpCtx() as operation:
        operation.remove()
        operation.write(b"between", 0)
        operation.remove()
        ioctx.operate_write_op(operation, "o")
    try:
        left = "it holds %r" % ioctx.read("o")
    except rados.ObjectNotFound:
        left = "it is gone"
said = "an object was removed, written and removed in one operation; " + left
print("not seen" if left == "it is gone" else "seen", said, sep=": ")
PYTHON
