#!/usr/bin/env bash
# Shows that one queue_enqueue of two entries loses acknowledged entries. Needs a running cluster (CEPH_CONF, or
# /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import struct


ROOM, FIRST, SECOND, THIRD = 100, 40, 40, 10  # bytes; each entry takes 10 more (a mark of 2, a length of 8)


def framed(body, version=1):
    return struct.pack("<BBI", version, 1, len(body)) + body


def text(value):
    return struct.pack("<I", len(value)) + value


def enqueue(ioctx, *entries):
    """Returns the call's status. librados raises an error for a call that an OSD refuses."""
    body = struct.pack("<I", len(entries)) + b"".join(text(entry) for entry in entries)
    try:
        return ioctx.execute("queue", "queue", "queue_enqueue", framed(body))[0]
    except rados.Error as error:
        return -abs(error.errno)


def listed(ioctx):
    """The content of the entries, as queue_list_entries returns it."""
    answer = ioctx.execute("queue", "queue", "queue_list_entries", framed(struct.pack("<Q", 10) + text(b"")), 65536)[1]
    at = 6 + 1  # the frame, is_truncated
    at += 4 + struct.unpack_from("<I", answer, at)[0]  # next_marker
    (count,) = struct.unpack_from("<I", answer, at)
    at, entries = at + 4, []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", answer, at + 6)
        entries.append(answer[at + 10 : at + 10 + length])
        at += 6 + struct.unpack_from("<I", answer, at + 2)[0]
    return entries


with own_pool() as (_, ioctx):
    ioctx.execute("queue", "queue", "queue_init", framed(struct.pack("<QQ", ROOM, 0) + text(b"")))
    one, two, three = b"a" * FIRST, b"b" * SECOND, b"c" * THIRD
    if enqueue(ioctx, one) != 0:
        raise SystemExit("the first entry was refused")
    status = enqueue(ioctx, two, three)
    wanted = [one, two, three] if status == 0 else [one]
    found = listed(ioctx)
sizes = ", ".join(str(len(entry)) for entry in found) or "none"
said = f"a call of {SECOND} and {THIRD} bytes with {ROOM - FIRST - 10} free gave {status}; a listing has entries of: {sizes}"
print("not seen" if found == wanted else "seen", said, sep=": ")
PYTHON
