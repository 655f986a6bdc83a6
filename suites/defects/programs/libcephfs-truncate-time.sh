#!/usr/bin/env bash
# Shows that a client of CephFS that makes a file longer gives it a time of change that no clock gave.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
import time

FILE = "/defect-truncate-time"
HOUR_S = 3600

with two_mounts() as (client, second):
    client.close(client.open(FILE, "w", 0o644))
    client.truncate(FILE, 1)  # at once, while the client may still change the file's attributes by itself
    longer = second.stat(FILE)
    second.unlink(FILE)
if longer.st_size != 1:
    raise SystemExit("the file is not longer, so this is something else")
wrong = abs(longer.st_mtime.timestamp() - time.time()) > HOUR_S
said = "a client made a file longer by truncate; its time of change is %s UTC" % longer.st_mtime
print("%s: %s" % ("seen" if wrong else "not seen", said))
PYTHON
