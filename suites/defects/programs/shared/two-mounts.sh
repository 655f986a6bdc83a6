#!/usr/bin/env bash
# Clients of one file system, for Python code.

# with_mounts: runs Python from standard input. There two_mounts() yields two clients, which are unmounted at the end.
with_mounts() {
  {
    cat <<'PYTHON'
import contextlib
import multiprocessing
import os
import subprocess

import cephfs

CONF = os.environ.get("CEPH_CONF", "/etc/ceph/ceph.conf")
FORKS = multiprocessing.get_context("fork")  # no longer the default from Python 3.14 on
WAITS_S = 20


def mounted():
    client = cephfs.LibCephFS(conffile=CONF)
    client.mount()
    return client


@contextlib.contextmanager
def two_mounts():
    clients = mounted(), mounted()
    try:
        yield clients
    finally:
        for client in clients:
            client.unmount()
            client.shutdown()


def evict(number):
    """End the session of a killed client. Until it is stale, others wait for what that client holds."""
    command = ["ceph", "-c", CONF, "tell", "mds.*", "session", "evict", "id=%d" % number]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def still_waits(process, numbers):
    """Whether a process still waits after WAITS_S. It is killed then, and the sessions of its clients are ended."""
    process.join(WAITS_S)
    waits = process.is_alive()
    process.kill()
    process.join()
    if waits:
        for number in numbers:
            evict(number)
    return waits


def names(client, path):
    folder = client.opendir(path)
    entries = []
    while True:
        entry = client.readdir(folder)
        if not entry:
            client.closedir(folder)
            return sorted(entries)
        if entry.d_name not in (b".", b".."):
            entries.append(entry.d_name.decode())


def opens(client, path):
    try:
        client.close(client.open(path, "r"))
    except cephfs.ObjectNotFound:
        return False
    return True


PYTHON
    cat
  } | python3 -
}
