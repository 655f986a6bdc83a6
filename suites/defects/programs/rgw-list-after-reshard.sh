#!/usr/bin/env bash
# Shows that a list of a bucket answers 404 NoSuchKey when the bucket has just been resharded. Starts a gateway of its
# own on 127.0.0.1. Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and
# removed, its admin key, and Python's rados module. TRIES: how many reshards to try, 60 by default.
set -euo pipefail

python3 - <<'PYTHON'
import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import os
import re
import socket
import subprocess
import tempfile
import threading
import time

import rados

CONF = os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")
TRIES = int(os.environ.get("TRIES", "60"))
USER = ["--uid", "defect", "--display-name", "defect", "--access-key", "defect", "--secret-key", "defect"]
ADMIN = ["--conf", CONF, "--name", "client.admin"]
OBJECTS, LISTING = 100, 8
SHARDS = (97, 5)


def ask(port, method, path, body=b""):
    """(status, body) of a request with a signature of version 2. ValueError without an answer."""
    date = email.utils.formatdate(usegmt=True)
    text = "%s\n\n\n%s\n%s" % (method, date, path.partition("?")[0])
    signature = base64.b64encode(hmac.new(b"defect", text.encode(), hashlib.sha1).digest()).decode()
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(method, path, body, {"Date": date, "Authorization": "AWS defect:" + signature})
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise ValueError(repr(error)) from None
    finally:
        line.close()


@contextlib.contextmanager
def gateway(directory):
    """The port of a gateway of this program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = ["--rgw_frontends", "beast endpoint=127.0.0.1:%d" % port, "--crash_dir", directory]
    process = subprocess.Popen(
        ["radosgw", "-f", *ADMIN, *own], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            if process.poll() is not None:
                raise SystemExit("radosgw ended with status %d" % process.returncode)
            with contextlib.suppress(ValueError):
                ask(port, "GET", "/")
                break
            time.sleep(0.2)
        yield port
    finally:
        process.kill()
        process.wait()


def listing(port, done, refused):
    """List the bucket until told to stop, and note every answer that is not its list."""
    while not done.is_set():
        status, body = ask(port, "GET", "/defect?list-type=2")
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


with rados.Rados(conffile=CONF) as cluster:
    before = cluster.list_pools()
    try:
        subprocess.run(["radosgw-admin", *ADMIN, "user", "create", *USER], check=True, stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as directory, gateway(directory) as port:
            count, refused = resharded(port)
    finally:
        cluster.wait_for_latest_osdmap()
        for pool in set(cluster.list_pools()) - set(before):
            cluster.delete_pool(pool)
if refused:
    print("seen: a bucket with %d objects was listed while it was resharded; reshard %d: %s" % (OBJECTS, count, refused[0]))
else:
    print("not seen: a bucket was listed during %d reshards, and every answer was its list" % count)
PYTHON
