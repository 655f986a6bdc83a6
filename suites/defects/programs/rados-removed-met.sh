#!/usr/bin/env bash
# Shows that a removed object that a snapshot has can be watched, and that object classes take it for there.
# Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's
# rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import struct

TAKE = struct.pack("<BBII1sB", 1, 1, 6, 1, b"t", False)  # cls_refcount_get_op: a tag, and no reference without one


def refer(ioctx, name):
    with rados.WriteOpCtx() as operation:
        operation.execute("refcount", "get", TAKE)
        ioctx.operate_write_op(operation, name)


def done(action):
    try:
        action()
    except rados.ObjectNotFound:
        return False
    return True


with own_pool() as (cluster, ioctx):
    for name in ("o", "p"):
        ioctx.write_full(name, b"before")
    ioctx.create_snap("s")
    cluster.wait_for_latest_osdmap()
    for name in ("o", "p"):
        ioctx.remove_object(name)
    met = {
        "it was watched": done(lambda: ioctx.watch("o", lambda *notice: None).close()),
        "refcount.get created it": done(lambda: refer(ioctx, "p")),
    }
    never = done(lambda: ioctx.watch("n", lambda *notice: None).close()) or done(lambda: refer(ioctx, "n"))
    ioctx.remove_snap("s")
if never:
    raise SystemExit("an object that was never there was found")
said = "an object was removed after a snapshot; " + (", ".join(what for what in met if met[what]) or "it was not found")
print("seen" if any(met.values()) else "not seen", said, sep=": ")
PYTHON
