#!/usr/bin/env bash
# Shows that nobody can ask who holds an ephemeral lock once its time is over. Needs a running cluster (CEPH_CONF, or
# /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import struct

EPHEMERAL = 3


def text(value):
    return struct.pack("<I", len(value)) + value


def encoded(body):
    return struct.pack("<BBI", 1, 1, len(body)) + body


# cls_lock_lock_op: name, kind, cookie, tag, description, duration in seconds and nanoseconds, flags
TAKE = text(b"l") + bytes([EPHEMERAL]) + text(b"c") + text(b"") + text(b"") + struct.pack("<IIB", 0, 1, 0)

with own_pool() as (_, ioctx):
    with rados.WriteOpCtx() as operation:
        operation.execute("lock", "lock", encoded(TAKE))
        ioctx.operate_write_op(operation, "o")
    try:
        ioctx.execute("o", "lock", "get_info", encoded(text(b"l")))
        answer = "was answered"
    except rados.ObjectNotFound:
        answer = "found no object"
    except rados.Error as error:
        answer = "was refused: errno %d" % error.errno
print("seen" if "errno" in answer else "not seen", "lock.get_info of an expired ephemeral lock " + answer, sep=": ")
PYTHON
