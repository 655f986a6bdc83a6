#!/usr/bin/env bash
# A gateway of this program's own on 127.0.0.1, for Python code.

# with_gateway: runs Python from standard input. There own_gateway() yields a gateway as its process and its port, with a
# user who signs the requests of ask(); afterwards every pool that was made meanwhile is removed. ADMIN: arguments for
# Ceph's programs.
with_gateway() {
  {
    cat <<'PYTHON'
import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import os
import socket
import subprocess
import tempfile
import time

import rados

CONF = os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")
USER = ["--uid", "defect", "--display-name", "defect", "--access-key", "defect", "--secret-key", "defect"]
ADMIN = ["--conf", CONF, "--name", "client.admin"]


def ask(port, method, path, body=b"", query="", **headers):
    """(status, body) of a request with a signature of version 2. query: what it does not sign. ValueError without an
    answer.
    """
    date = email.utils.formatdate(usegmt=True)
    amz = "".join("%s:%s\n" % (name.replace("_", "-"), value) for name, value in sorted(headers.items()))
    text = "%s\n\n\n%s\n%s%s" % (method, date, amz, path)
    signature = base64.b64encode(hmac.new(b"defect", text.encode(), hashlib.sha1).digest()).decode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        line.request(method, path + query, body, {"Date": date, "Authorization": "AWS defect:" + signature, **sent})
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


@contextlib.contextmanager
def own_gateway():
    with rados.Rados(conffile=CONF) as cluster:
        before = cluster.list_pools()
        try:
            subprocess.run(["radosgw-admin", *ADMIN, "user", "create", *USER], check=True, stdout=subprocess.DEVNULL)
            with tempfile.TemporaryDirectory() as directory, gateway(directory) as running:
                yield running
        finally:
            cluster.wait_for_latest_osdmap()
            for pool in set(cluster.list_pools()) - set(before):
                cluster.delete_pool(pool)


PYTHON
    cat
  } | python3 -
}
