"""The terminal of `cephlab shell` in a guest: what is typed and its size are sent in whole frames."""

import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cephlab.lab.providers.guest import attach

TYPED = 1 << 18
LIMIT_S = 60


class Guest:
    """A guest's agent and the keeper that leads to it. It reads nothing until it is told to."""

    def __init__(self, folder: Path) -> None:
        self.link, far = socket.socketpair()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the kernel's least: every frame waits for its reader
        self.link.settimeout(LIMIT_S)
        self._far = far
        self._keeper = socket.socket(socket.AF_UNIX)
        self._keeper.bind(str(folder / "keeper"))
        self._keeper.listen(1)
        threading.Thread(target=self._lead, daemon=True).start()

    def _lead(self) -> None:
        with self._keeper, self._far:
            asking, _ = self._keeper.accept()
            with asking:
                asking.recv(500)
                socket.send_fds(asking, [b"+"], [self._far.fileno()])

    def exactly(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            part = self.link.recv(min(count - len(parts), 512))
            assert part, "the script hung up"
            parts += part
        return parts

    def frame(self) -> tuple[bytes, bytes]:
        kind, length = struct.unpack(">cI", self.exactly(5))
        assert kind in (b"j", b"0", b"w"), f"no frame begins with {kind!r}"
        return kind, self.exactly(length)

    def end(self) -> None:
        ended = json.dumps({"code": 0}).encode()
        self.link.sendall(struct.pack(">cI", b"x", len(ended)) + ended)


@pytest.fixture
def guest() -> Iterator[tuple[Guest, Path]]:
    with TemporaryDirectory() as name:
        here = Guest(Path(name))
        yield here, Path(name)
        here.link.close()


def resize(terminal: int, rows: int) -> None:
    termios.tcsetwinsize(terminal, (rows, 80))


def typing(master: int) -> None:
    left = TYPED
    while left:
        left -= os.write(master, b"x" * min(left, 512))


@pytest.mark.slow
def test_a_new_size_never_comes_within_what_is_typed(guest: tuple[Guest, Path]) -> None:
    agent, folder = guest
    master, terminal = pty.openpty()
    tty.setraw(terminal)
    request = json.dumps({"argv": ["cat"], "env": {}, "terminal": True})
    argv = [sys.executable, "-I", attach.__file__, str(folder), "a", "1", request]
    resize(master, 10)
    with subprocess.Popen(argv, stdin=terminal, stdout=subprocess.DEVNULL) as script:
        try:
            kind, payload = agent.frame()
            assert (kind, json.loads(payload)["terminal"][0]) == (b"j", 10)
            typist = threading.Thread(target=typing, args=(master,), daemon=True)
            typist.start()
            got, rows = 0, 10
            sizes: list[int] = []
            while got < TYPED or not sizes or sizes[-1] != rows:
                if got < TYPED // 2:
                    rows += 1
                    resize(master, rows)
                    script.send_signal(signal.SIGWINCH)
                    time.sleep(0.002)  # so that it strikes while the script waits for this reader
                kind, payload = agent.frame()
                if kind == b"0":
                    assert set(payload) == {ord("x")}
                    got += len(payload)
                else:
                    sizes.append(json.loads(payload)[0])
            agent.end()
            assert script.wait(LIMIT_S) == 0
        finally:
            script.kill()
            os.close(master)
            os.close(terminal)
    assert got == TYPED
    assert sizes == sorted(sizes)
