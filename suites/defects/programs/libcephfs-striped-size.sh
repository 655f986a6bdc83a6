#!/usr/bin/env bash
# Shows that a metadata server gives a striped file too large a size after the client that writes it was evicted.
# Needs a running cluster with a file system (CEPH_CONF, or /etc/ceph/ceph.conf), the command ceph, and Python's cephfs
# module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/two-mounts.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/two-mounts.sh"

with_mounts <<'PYTHON'
import subprocess
import time

FILE, SIZE, UNIT = "/defect-striped-size", 1000, 65536
LOOKS, PAUSE_S = 25, 0.2
WRITER = """
import os
import sys
import time

import cephfs

path, size, layout = sys.argv[1:]
client = cephfs.LibCephFS(conffile=os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf"))
client.mount()
file = client.open(path, "w", 0o644)
client.setxattr(path, "ceph.file.layout", layout.encode(), 0)
client.write(file, b"x" * int(size), 0)
client.fsync(file, 0)
print(client.get_instance_id(), flush=True)
time.sleep(600)
"""


def size_after(client, count):
    """The size of a file of SIZE bytes, striped over so many objects, after its writer was evicted."""
    layout = "stripe_unit=%d stripe_count=%d object_size=%d" % (UNIT, count, UNIT)
    arguments = ["python3", "-c", WRITER, FILE, str(SIZE), layout]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    number = int(writer.stdout.readline())
    before = client.stat(FILE).st_size
    writer.kill()
    writer.wait()
    if before != SIZE:
        raise SystemExit("the file has another size before, so this is something else")
    evict(number)
    sizes = set()
    for _ in range(LOOKS):
        sizes.add(client.stat(FILE).st_size)
        time.sleep(PAUSE_S)
    client.unlink(FILE)
    return max(sizes)


with two_mounts() as (client, _):
    plain, striped = (size_after(client, count) for count in (1, 2))
if plain != SIZE:
    raise SystemExit("a file without stripes changes its size too, so this is something else")
said = "a file of %d bytes, striped over two objects, has %d bytes after its writer was evicted" % (SIZE, striped)
print("%s: %s" % ("seen" if striped != SIZE else "not seen", said))
PYTHON
