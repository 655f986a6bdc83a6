#!/usr/bin/env bash
# Shows that a file of CephFS loses the time that was set, once a client is evicted that had it open for writing.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), the command ceph, and Python's cephfs
# module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
import signal

FILE, TIMES = "/defect-evicted-time", (1000, 2000)


def set_times(number, synced):
    client = mounted()
    number.value = client.get_instance_id()
    written = client.open(FILE, "w", 0o644)
    client.write(written, b"x", 0)
    client.fsync(written, 0)
    client.utimes(FILE, TIMES)
    client.sync_fs()
    synced.set()
    signal.pause()


def changed(client):
    return int(client.stat(FILE).st_mtime.timestamp())


number, synced = FORKS.Value("q", 0), FORKS.Event()
writer = FORKS.Process(target=set_times, args=(number, synced))
writer.start()
there = synced.wait(60)
if not there:
    writer.kill()
    raise SystemExit("no times could be set, so this is something else")
client = mounted()
before = changed(client)
writer.kill()
writer.join()
evict(number.value)
after = changed(client)
client.unlink(FILE)
client.unmount()
client.shutdown()
if before != TIMES[1]:
    raise SystemExit("the time was not %d before either, but %d: so this is something else" % (TIMES[1], before))
said = "a client set a file's time of change to %d, and another saw it; after the eviction it saw %d" % (before, after)
print("%s: %s" % ("not seen" if after == before else "seen", said))
PYTHON
