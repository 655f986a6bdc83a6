"""A connection that was lost a moment ago is made again, before its end can be told by its process."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lab.arch import host_arch
from lab.inventory import Machine
from lab.providers.ssh.connection import Connection


class Forwarding(Connection):
    """Sockets as ssh leaves them: one whose listener is gone until the connection is closed, then `after`."""

    def __init__(self, folder: Path, after: Path) -> None:
        super().__init__(Machine("m", "192.0.2.1", "192.0.2.1", host_arch(), frozenset()), {}, "cephlab-test-")
        self.paths = [after, folder / "stale"]
        gone = socket.socket(socket.AF_UNIX)
        gone.bind(str(self.paths[-1]))
        gone.close()

    def near(self, path: str) -> Path:
        assert path == "/there"
        return self.paths[-1]

    def close(self) -> None:
        self.paths = self.paths[:1]


def test_a_connection_that_has_just_been_lost_is_made_again(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "live"))
        listening.listen()
        Forwarding(tmp_path, tmp_path / "live").socket_to("/there").close()


def test_it_is_tried_once_more_and_not_for_ever(tmp_path: Path) -> None:
    connection = Forwarding(tmp_path, tmp_path / "stale")
    with pytest.raises(ConnectionRefusedError):
        connection.socket_to("/there")
