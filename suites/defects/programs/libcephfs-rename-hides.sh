#!/usr/bin/env bash
# Shows that a client of CephFS that replaces one name of a file by a rename no longer finds the file's other name.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

python3 - <<'PYTHON'
import os

import cephfs

CONF = os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")
FOLDER = "/defect-hides"
OTHER_FOLDER = f"{FOLDER}/d"
KEPT, REPLACED, NEW = f"{OTHER_FOLDER}/kept", f"{FOLDER}/replaced", f"{FOLDER}/new"


def names(client):
    folder = client.opendir(OTHER_FOLDER)
    entries = []
    while True:
        entry = client.readdir(folder)
        if not entry:
            client.closedir(folder)
            return entries
        if entry.d_name not in (b".", b".."):
            entries.append(entry.d_name.decode())


def opens(client):
    try:
        client.close(client.open(KEPT, "r"))
    except cephfs.ObjectNotFound:
        return False
    return True


def mounted():
    client = cephfs.LibCephFS(conffile=CONF)
    client.mount()
    return client


client, second = mounted(), mounted()
try:
    client.mkdir(FOLDER, 0o755)
    client.mkdir(OTHER_FOLDER, 0o755)
    for path in (KEPT, NEW):
        client.close(client.open(path, "w", 0o644))
    client.link(KEPT, REPLACED)
    before = names(client), opens(client)
    client.stat(REPLACED)
    client.rename(NEW, REPLACED)
    client.sync_fs()  # until the server has written the rename to its journal; only then the name is forgotten
    after = names(client), opens(client)
    others = names(second), opens(second)
    second.unlink(KEPT)
    second.unlink(REPLACED)
    second.rmdir(OTHER_FOLDER)
    second.rmdir(FOLDER)
finally:
    for each in (client, second):
        each.unmount()
        each.shutdown()
if before != (["kept"], True) or others != before:
    raise SystemExit("the other name was not there before, or is gone for another client too, so this is something else")
said = f"a file had two names, and a rename replaced one; its client lists {after[0]} where the other one is, and "
said += "opens it" if after[1] else "opening it gives ENOENT"
print("not seen" if after == before else "seen", f"{said}; another client lists and opens it", sep=": ")
PYTHON
