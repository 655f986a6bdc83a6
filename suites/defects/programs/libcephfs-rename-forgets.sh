#!/usr/bin/env bash
# Shows that a client of CephFS no longer finds a name after a rename that changes nothing: of a file onto another of its
# own names and, in most tries, of a directory onto its own.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), and Python's cephfs module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
FOLDER = "/defect-rename"
ONE, OTHER, DIRECTORY = f"{FOLDER}/a", f"{FOLDER}/b", f"{FOLDER}/d"

with two_mounts() as (client, second):
    client.mkdir(FOLDER, 0o755)
    client.close(client.open(ONE, "w", 0o644))
    client.link(ONE, OTHER)
    names(client, FOLDER)
    client.rename(OTHER, ONE)
    own = [opens(client, path) for path in (ONE, OTHER)]
    others = opens(second, ONE) and opens(second, OTHER)
    client.mkdir(DIRECTORY, 0o755)
    client.rename(DIRECTORY, DIRECTORY)
    own.append(opens(client, DIRECTORY))
    others = others and opens(second, DIRECTORY)
    second.rmdir(DIRECTORY)
    for name in names(second, FOLDER):
        second.unlink(f"{FOLDER}/{name}")
    second.rmdir(FOLDER)
if not others:
    raise SystemExit("another client does not find every name, so this is something else")
found = ", ".join(f"{path[-1]} {'there' if seen else 'ENOENT'}" for path, seen in zip((ONE, OTHER, DIRECTORY), own))
said = "a client renamed b onto a, which is the same file, and the directory d onto d; "
said += f"in that client {found}; in another all there"
print("not seen" if all(own) else "seen", said, sep=": ")
PYTHON
