#!/usr/bin/env bash
# Shows that the times that a client of CephFS gives a file do not stay, if another client keeps the file open.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
FILE = "/defect-times"
EARLIER, LATER = (1000, 2000), (3000, 4000)


def times(client):
    about = client.stat(FILE)
    return int(about.st_atime.timestamp()), int(about.st_mtime.timestamp())


with two_mounts() as (client, second):
    kept = second.open(FILE, "w+", 0o644)
    client.utimes(FILE, EARLIER)
    before = times(client)
    written = client.open(FILE, "r+")
    client.write(written, b"x", 0)
    client.fsync(written, 0)
    client.close(written)
    client.utimes(FILE, LATER)
    got = times(client), times(second)
    second.close(kept)
    second.unlink(FILE)
if before != EARLIER:
    raise SystemExit(f"the first times did not stay either, so this is something else: {before}")
said = "a client set a file's times to %s and %s, which another had open; then it saw %s and %s, " % (*LATER, *got[0])
said += "and the other %s and %s" % got[1]
print("not seen" if got == (LATER, LATER) else "seen", said, sep=": ")
PYTHON
