#!/usr/bin/env bash
# Shows that a gateway ends when a part is copied from an object called `100% done`. Starts a gateway of its own on
# 127.0.0.1. Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, its
# admin key, and Python's rados module.
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
import time

import rados

CONF = os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")
USER = ["--uid", "defect", "--display-name", "defect", "--access-key", "defect", "--secret-key", "defect"]
ADMIN = ["--conf", CONF, "--name", "client.admin"]


def ask(port, method, path, body=b"", **headers):
    """(status, body) of a request with a signature of version 2. ValueError without an answer."""
    date = email.utils.formatdate(usegmt=True)
    amz = "".join("%s:%s\n" % (name.replace("_", "-"), value) for name, value in sorted(headers.items()))
    text = "%s\n\n\n%s\n%s%s" % (method, date, amz, path)
    signature = base64.b64encode(hmac.new(b"defect", text.encode(), hashlib.sha1).digest()).decode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(method, path, body, {"Date": date, "Authorization": "AWS defect:" + signature, **sent})
        answer = line.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise ValueError(repr(error)) from None
    finally:
        line.close()


@contextlib.contextmanager
def gateway(directory):
    """A gateway of this program, whose crash is reported into a directory: its process and its port."""
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
        yield process, port
    finally:
        process.kill()
        process.wait()


def copied(process, port):
    """What became of the gateway and of the copy."""
    ask(port, "PUT", "/defect")
    ask(port, "PUT", "/defect/100%25%20done", b"content")
    _, begun = ask(port, "POST", "/defect/copy?uploads")
    upload = re.search("<UploadId>(.+)</UploadId>", begun)[1]
    path = "/defect/copy?partNumber=1&uploadId=" + upload
    try:
        status, _ = ask(port, "PUT", path, x_amz_copy_source="/defect/100%25%20done", x_amz_copy_source_range="bytes=0-6")
    except ValueError:
        return "the gateway ended with status %d" % process.wait(60)
    return "the status was %d" % status


with rados.Rados(conffile=CONF) as cluster:
    before = cluster.list_pools()
    try:
        subprocess.run(["radosgw-admin", *ADMIN, "user", "create", *USER], check=True, stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as directory, gateway(directory) as (process, port):
            said = copied(process, port)
    finally:
        cluster.wait_for_latest_osdmap()
        for pool in set(cluster.list_pools()) - set(before):
            cluster.delete_pool(pool)
print("not seen" if said.endswith("200") else "seen", "a part was copied from an object called `100% done`: " + said, sep=": ")
PYTHON
