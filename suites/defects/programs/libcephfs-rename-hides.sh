#!/usr/bin/env bash
# Shows that a client of CephFS that replaces one name of a file by a rename no longer finds the file's other name.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
FOLDER = "/defect-hides"
OTHER_FOLDER = f"{FOLDER}/d"
KEPT, REPLACED, NEW = f"{OTHER_FOLDER}/kept", f"{FOLDER}/replaced", f"{FOLDER}/new"

with two_mounts() as (client, second):
    client.mkdir(FOLDER, 0o755)
    client.mkdir(OTHER_FOLDER, 0o755)
    for path in (KEPT, NEW):
        client.close(client.open(path, "w", 0o644))
    client.link(KEPT, REPLACED)
    before = names(client, OTHER_FOLDER), opens(client, KEPT)
    client.stat(REPLACED)
    client.rename(NEW, REPLACED)
    client.sync_fs()  # until the server has written the rename to its journal; only then the name is forgotten
    after = names(client, OTHER_FOLDER), opens(client, KEPT)
    others = names(second, OTHER_FOLDER), opens(second, KEPT)
    second.unlink(KEPT)
    second.unlink(REPLACED)
    second.rmdir(OTHER_FOLDER)
    second.rmdir(FOLDER)
if before != (["kept"], True) or others != before:
    raise SystemExit("the other name was not there before, or is gone for another client too, so this is something else")
said = f"a file had two names, and a rename replaced one; its client lists {after[0]} where the other one is, and "
said += "opens it" if after[1] else "opening it gives ENOENT"
print("not seen" if after == before else "seen", f"{said}; another client lists and opens it", sep=": ")
PYTHON
