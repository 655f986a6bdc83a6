#!/usr/bin/env bash
# Shows that a client of CephFS cannot unmount any more, once it was told that a snapshot it removes does not exist.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), the command ceph, and Python's cephfs
# module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
FOLDER = "/defect-unmount-waits"


def remove_snapshot(number, refused):
    client = mounted()
    number.value = client.get_instance_id()
    client.mkdir(FOLDER, 0o755)
    try:
        client.rmdir(FOLDER + "/.snap/none")
    except cephfs.ObjectNotFound:
        refused.set()
    client.unmount()
    client.shutdown()


number, refused = FORKS.Value("q", 0), FORKS.Event()
client = FORKS.Process(target=remove_snapshot, args=(number, refused))
client.start()
if not refused.wait(60):
    client.kill()
    raise SystemExit("the removal was not refused, so this is something else")
waits = still_waits(client, [number.value])
if not waits and client.exitcode:
    raise SystemExit("exit code %d: so this is something else" % client.exitcode)
other = mounted()
other.rmdir(FOLDER)
other.unmount()
other.shutdown()
said = "it still waited after %d s" % WAITS_S if waits else "it ended"
print("%s: a client removed a snapshot that was not there, and unmounted; %s" % ("seen" if waits else "not seen", said))
PYTHON
