"""A daemon's admin socket, which answers where no monitor does."""

from __future__ import annotations

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

from lab.errors import LabBroken
from lab.host import Host
from lab.telemetry.counters import ask_socket


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

    def run(self, argv: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=timeout_s)


def test_an_admin_socket_is_asked_without_any_monitor(tmp_path: Path) -> None:
    path = tmp_path / "mon.n0.asok"
    with admin_socket(path, {"mon_status": b'{"quorum": []}'}):
        assert ask_socket(cast("Host", Here()), PurePosixPath(path), "mon_status") == {"quorum": []}


def test_an_admin_socket_that_gives_no_answer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mon.n0.asok"
    with (
        admin_socket(path, {"mon_status": b"ERROR: no"}),
        pytest.raises(LabBroken, match="gave no answer to mon_status"),
    ):
        ask_socket(cast("Host", Here()), PurePosixPath(path), "mon_status")
