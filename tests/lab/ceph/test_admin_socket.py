"""A daemon's admin socket, which answers where no monitor does."""

import errno
import json
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient
from cephlab.lab.ceph.daemon import Daemon, ask_socket, tell
from cephlab.lab.providers.host import Host


@contextmanager
def admin_socket(path: Path, answers: Mapping[str, bytes]) -> Iterator[None]:
    """A daemon's admin socket: one command, one answer."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        asked, _ = listening.accept()
        with asked:
            command = json.loads(asked.recv(4096).rstrip(b"\0"))["prefix"]
            asked.sendall(struct.pack(">I", len(answers[command])) + answers[command])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listening.close()


class Here:
    """A host that is this machine."""

    name = "here"

    def __init__(self, directory: Path = Path("/")) -> None:
        self.directory = PurePosixPath(directory)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=timeout_s)


@pytest.mark.slow
def test_an_admin_socket_is_asked_without_any_monitor(tmp_path: Path) -> None:
    path = tmp_path / "mon.n0.asok"
    with admin_socket(path, {"mon_status": b'{"quorum": []}'}):
        assert ask_socket(cast("Host", Here()), PurePosixPath(path), "mon_status") == {"quorum": []}


class Refusing:
    """A client whose daemons refuse."""

    def __init__(self, code: int) -> None:
        self.code = code

    def tell(self, name: str, prefix: str) -> object:
        raise CephCommandFailed(name, {"prefix": prefix}, self.code, "unrecognized command")


def told(tmp_path: Path, code: int, *known: str) -> object:
    host = cast("Host", Here(tmp_path))
    daemons = {name: Daemon(name, host, ("ceph-osd",)) for name in known}
    return tell(cast("RadosClient", Refusing(code)), daemons, "osd.0", "status")


@pytest.mark.slow
def test_a_daemon_that_refuses_a_command_is_asked_by_its_socket(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with admin_socket(tmp_path / "run/osd.0.asok", {"status": b'{"newest_map": 7}'}):
        assert told(tmp_path, -errno.EINVAL, "osd.0") == {"newest_map": 7}


@pytest.mark.slow
def test_where_the_socket_gives_no_answer_the_first_refusal_stands(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with (
        admin_socket(tmp_path / "run/osd.0.asok", {"status": b"ERROR: no"}),
        pytest.raises(CephCommandFailed, match="unrecognized command"),
    ):
        told(tmp_path, -errno.EINVAL, "osd.0")


@pytest.mark.parametrize(("code", "known"), [(-errno.ENXIO, "osd.0"), (-errno.EINVAL, "osd.1")])
def test_any_other_refusal_stands(tmp_path: Path, code: int, known: str) -> None:
    with pytest.raises(CephCommandFailed):
        told(tmp_path, code, known)


@pytest.mark.slow
def test_an_admin_socket_that_gives_no_answer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mon.n0.asok"
    with (
        admin_socket(path, {"mon_status": b"ERROR: no"}),
        pytest.raises(LabBroken, match="gave no answer to mon_status"),
    ):
        ask_socket(cast("Host", Here()), PurePosixPath(path), "mon_status")
