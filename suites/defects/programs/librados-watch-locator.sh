#!/usr/bin/env bash
# Shows that Python's librados forgets the locator key when it watches an object. Needs a running cluster (CEPH_CONF, or
# /etc/ceph/ceph.conf) on which pools may be created and removed, and Python's rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-pool.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-pool.sh"

in_pool <<'PYTHON'
with own_pool() as (_, ioctx):
    ioctx.set_locator_key("key")
    ioctx.write_full("o", b"")
    try:
        ioctx.watch("o", lambda *notice: None).close()
        answer = "was watched"
    except rados.ObjectNotFound:
        answer = "was not found"
print("not seen" if answer == "was watched" else "seen", "an object with a locator key " + answer, sep=": ")
PYTHON
