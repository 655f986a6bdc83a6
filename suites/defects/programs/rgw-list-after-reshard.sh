#!/usr/bin/env bash
# Shows that a list of a bucket answers 404 NoSuchKey when the bucket has just been resharded. Starts a gateway of its
# own on 127.0.0.1. Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and
# removed, its admin key, and Python's rados module. TRIES: how many reshards to try, 60 by default.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-gateway.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-gateway.sh"

with_gateway <<'PYTHON'
import re
import threading

TRIES = int(os.environ.get("TRIES", "60"))
OBJECTS, LISTING = 100, 8
SHARDS = (97, 5)


def listing(port, done, refused):
    """List the bucket until told to stop, and note every answer that is not its list."""
    while not done.is_set():
        status, body = ask(port, "GET", "/defect", query="?list-type=2")
        if status != 200:
            refused.append("%d %s" % (status, re.search("<Code>(.+)</Code>", body)[1]))


def resharded(port):
    """Reshard the bucket while it is listed: (number of reshards, answers that are no list)."""
    ask(port, "PUT", "/defect")
    for number in range(OBJECTS):
        ask(port, "PUT", "/defect/o%d" % number, b"content")
    done, refused = threading.Event(), []
    threads = [threading.Thread(target=listing, args=(port, done, refused)) for _ in range(LISTING)]
    for thread in threads:
        thread.start()
    count = 0
    try:
        while count < TRIES and not refused:
            shards = str(SHARDS[count % len(SHARDS)])
            argv = ["radosgw-admin", *ADMIN, "bucket", "reshard", "--bucket", "defect", "--num-shards", shards]
            subprocess.run(
                [*argv, "--yes-i-really-mean-it"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            count += 1
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return count, refused


with own_gateway() as (_process, port):
    count, refused = resharded(port)
if refused:
    print("seen: a bucket with %d objects was listed while it was resharded; reshard %d: %s" % (OBJECTS, count, refused[0]))
else:
    print("not seen: a bucket was listed during %d reshards, and every answer was its list" % count)
PYTHON
