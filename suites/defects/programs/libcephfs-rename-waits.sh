#!/usr/bin/env bash
# Shows that a client of CephFS whose rename was refused waits for ever for the target name, once another client has
# created it.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), the command ceph, and Python's cephfs
# module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
FOLDER = "/defect-waits-%d" % os.getpid()  # stays there


def rename_and_look(numbers, refused):
    client, other = mounted(), mounted()
    numbers[:] = client.get_instance_id(), other.get_instance_id()
    client.mkdir(FOLDER, 0o755)
    try:
        client.rename(FOLDER + "/missing", FOLDER + "/name")
    except cephfs.ObjectNotFound:
        refused.set()
    other.mkdir(FOLDER + "/name", 0o755)
    client.stat(FOLDER + "/name")
    for each in (client, other):
        each.unmount()
        each.shutdown()


numbers, refused = FORKS.Array("q", 2), FORKS.Event()
clients = FORKS.Process(target=rename_and_look, args=(numbers, refused))
clients.start()
if not refused.wait(60):
    clients.kill()
    raise SystemExit("the rename of a missing file was not refused, so this is something else")
waits = still_waits(clients, numbers)
if not waits and clients.exitcode:
    raise SystemExit("the clients ended with %s, so this is something else" % clients.exitcode)
said = "a client looked at a name that its rename had been refused and another client made"
print("%s: %s; %s" % (("seen", said, "it still waited after %d s" % WAITS_S) if waits else ("not seen", said, "it saw it")))
PYTHON
