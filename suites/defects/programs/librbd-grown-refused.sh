#!/usr/bin/env bash
# Shows that a client of librbd does not write to the new part of an image that another client has made larger. Needs a
# running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados and
# rbd modules.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
import time

import rbd

SIZE = 1 << 20


def ending(call, *arguments):
    try:
        return call(*arguments)
    except rbd.Error as error:
        return repr(error)


with own_pool() as (_, ioctx):
    rbd.RBD().create(ioctx, "i", SIZE)
    with rbd.Image(ioctx, "i") as one, rbd.Image(ioctx, "i") as other:
        one.write(b"before", 0)
        one.resize(2 * SIZE)
        one.write(b"beyond", SIZE)
        time.sleep(3)
        got = [ending(other.read, SIZE, 6), ending(other.write, b"beside", SIZE + 6)]
        assert (other.size(), other.write(b"beside", SIZE + 6)) == (2 * SIZE, 6), "it does so once it knows the size"
        one.write(b"locked", 0)
        other.resize(3 * SIZE)
        got.append(ending(other.write, b"own", 2 * SIZE))
words = "read and write beyond the old size, and a write after a resize of its own: %r" % got
print("not seen" if got == [b"beyond", 6, 3] else "seen", words, sep=": ")
PYTHON
