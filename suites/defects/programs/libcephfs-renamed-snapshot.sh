#!/usr/bin/env bash
# Shows that a snapshot shows a directory as it is now, if it was renamed and the metadata server failed before it
# changed. Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), the command ceph,
# and Python's cephfs module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
import stat

ABOVE, SNAP = "/defect-renamed", "/defect-renamed/.snap/before"
OLD, NEW = "%s/old" % ABOVE, "%s/new" % ABOVE
BEFORE, AFTER = 0o755, 0o700


def fail_server():
    subprocess.run(["ceph", "-c", CONF, "mds", "fail", "0"], check=True, stderr=subprocess.DEVNULL)


def mode_in_snapshot(client, rename):
    """The mode of a directory in a snapshot that was made before the directory was renamed and got another mode."""
    client.mkdir(ABOVE, 0o755)
    client.mkdir(OLD, BEFORE)
    client.sync_fs()
    client.mkdir(SNAP, 0o755)
    if rename:
        client.rename(OLD, NEW)
    client.sync_fs()
    fail_server()
    client.chmod(NEW if rename else OLD, AFTER)
    client.sync_fs()
    mode = stat.S_IMODE(client.stat("%s/old" % SNAP).st_mode)
    client.rmdir(SNAP)
    client.rmdir(NEW if rename else OLD)
    client.rmdir(ABOVE)
    return mode


with two_mounts() as (client, _):
    plain, renamed = (mode_in_snapshot(client, rename) for rename in (False, True))
if plain != BEFORE:
    raise SystemExit("a directory that was not renamed has another mode in the snapshot too, so this is something else")
said = "a directory had mode %o, and has %o in a snapshot of that time, after it was renamed, the server failed, "
said = said % (BEFORE, renamed) + "and the directory got mode %o" % AFTER
print("%s: %s" % ("seen" if renamed != BEFORE else "not seen", said))
PYTHON
