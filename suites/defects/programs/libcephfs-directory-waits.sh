#!/usr/bin/env bash
# Shows that a client of CephFS that reads an opened directory waits for ever, where POSIX requires EISDIR.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), the command ceph, and Python's cephfs
# module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
import errno


def read_root(number, opened, answer):
    client = mounted()
    number.value = client.get_instance_id()
    directory = client.open("/", "r")
    opened.set()
    try:
        client.read(directory, 0, 1)
    except cephfs.OSError as error:
        answer.value = error.errno
    client.close(directory)
    client.unmount()
    client.shutdown()


number, opened, answer = FORKS.Value("q", 0), FORKS.Event(), FORKS.Value("i", 0)
client = FORKS.Process(target=read_root, args=(number, opened, answer))
client.start()
if not opened.wait(60):
    client.kill()
    raise SystemExit("the directory could not be opened, so this is something else")
waits = still_waits(client, [number.value])
if not waits and (client.exitcode or answer.value != errno.EISDIR):
    raise SystemExit("error %d, exit code %s: so this is something else" % (answer.value, client.exitcode))
said = "it still waited after %d s" % WAITS_S if waits else "it was refused with EISDIR"
print("%s: a client read the root, which it had opened; %s" % ("seen" if waits else "not seen", said))
PYTHON
