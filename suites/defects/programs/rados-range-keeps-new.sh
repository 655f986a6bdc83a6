#!/usr/bin/env bash
# Shows that an operation that sets keys of an omap and then removes a range of keys leaves the keys that it set.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's
# rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
with own_pool() as (_, ioctx):
    ioctx.write_full("o", b"")
    with rados.WriteOpCtx() as operation:
        ioctx.set_omap(operation, ("b", "c", "e"), (b"1", b"2", b"3"))
        ioctx.remove_omap_range2(operation, "a", "d")
        ioctx.operate_write_op(operation, "o")
    with rados.ReadOpCtx() as operation:
        entries, _ = ioctx.get_omap_vals(operation, "", "", 100)
        ioctx.operate_read_op(operation, "o")
        left = [key for key, _ in entries]
said = "an operation set the keys b, c and e and removed those from a to d; left are " + ", ".join(left)
print("not seen" if left == ["e"] else "seen", said, sep=": ")
PYTHON
