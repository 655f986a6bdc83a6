"""The keys of an S3 load are in no file and in no command line, whatever kills it or who started it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cephlab.lab.base import clock
from tests.code_tree import ROOT

ACCESS, SECRET = "KEYFORTHETEST00000001", "secretOfThisVeryTest0123456789abcdefghij"
STARTERS = {
    "s3load": "s3load.start(host, [Endpoint(address, access, secret)], S3Load(runtime_s=60, phases=('run',)))",
    "s3": "s3.start(host, Endpoint(address, access, secret), S3Job('get', 'b', 3, 10, 1, 60.0))",
}
PARENT = """
import os, shutil, sys, time
from pathlib import Path, PurePosixPath
from cephlab.lab.base import process
from cephlab.lab.cluster.gateway import Endpoint
from cephlab.lab.workloads import s3, s3load
from cephlab.lab.workloads.s3 import S3Job
from cephlab.lab.workloads.s3load import S3Load

class Machine:
    name, directory = "n0", PurePosixPath(sys.argv[1])

    def push(self, content, path, *, mode=0o644):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content if isinstance(content, bytes) else content.read_bytes())

    def remove(self, path):
        shutil.rmtree(path, ignore_errors=True)

    def make_directory(self, path):
        Path(path).mkdir(parents=True)

    def spawn(self, argv, *, log, env=None):
        started = process.start_detached((sys.executable, *argv[1:]), log=Path(log), env=env)
        print(started.pid, flush=True)
        return started

host, address, access, secret = Machine(), sys.argv[2], os.environ["ACCESS"], os.environ["SECRET"]
{start}
time.sleep(60)
"""


@contextmanager
def load(starter: str, folder: Path, address: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A process that starts a load, and the load's pid; both are gone after the block."""
    source = PARENT.replace("{start}", STARTERS[starter])
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ACCESS": ACCESS, "SECRET": SECRET}
    argv = [sys.executable, "-c", source, str(folder), address]
    with subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            yield parent, pid
        finally:
            parent.kill()
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)


def telling(folder: Path) -> list[str]:
    """Files that have either key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if any(key.encode() in path.read_bytes() for key in (ACCESS, SECRET))]


@pytest.mark.slow
@pytest.mark.parametrize("starter", STARTERS)
def test_a_load_and_its_parent_that_are_killed_leave_no_key(starter: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = "{}:{}".format(*listening.getsockname())
        with load(starter, tmp_path / "n0", address) as (parent, pid):
            listening.settimeout(30)
            asking, _ = listening.accept()
            with asking:
                asking.settimeout(30)
                asked = asking.recv(4096).decode()
                # It has the keys, and signs with them.
                assert f"Credential={ACCESS}/" in asked
                parent.send_signal(signal.SIGKILL)
                parent.wait(30)
                assert telling(tmp_path) == []
                shown = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
                assert SECRET not in shown
                assert ACCESS not in shown
                os.kill(pid, signal.SIGKILL)
            clock.wait(
                Path(f"/proc/{pid}").exists, lambda there: not there, what="the end of the killed load", timeout_s=30
            )
            assert telling(tmp_path) == []
