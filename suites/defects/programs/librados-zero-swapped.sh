#!/usr/bin/env bash
# Shows that Python's WriteOp.zero(offset, length) passes the length to librados as the offset. Needs a running cluster
# (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
SIZE, OFFSET, LENGTH = 2023, 7605, 1199  # zeroing beyond the object's end must change nothing

with own_pool() as (_, ioctx):
    ioctx.write_full("o", b"a" * SIZE)
    with rados.WriteOpCtx() as operation:
        operation.zero(OFFSET, LENGTH)
        ioctx.operate_write_op(operation, "o")
    size, _ = ioctx.stat("o")
    left = ioctx.read("o", SIZE).count(b"a")
said = f"zero({OFFSET}, {LENGTH}) of an object of {SIZE} bytes left {size} bytes, {left} of them its own"
print("not seen" if (size, left) == (SIZE, SIZE) else "seen", said, sep=": ")
PYTHON
