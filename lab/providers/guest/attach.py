"""Gives a terminal, or plain streams, to a program in a guest; run as a script by `cephlab shell` and the like.

Arguments: the folder of the network's keeper, the agent's address and port, and an order (JSON: argv, env, terminal).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import termios
import tty

HEAD = struct.Struct(">cI")
CHUNK = 1 << 16


def connect(folder: str, address: str, port: str) -> socket.socket:
    """The keeper opens the connection in the run's network and hands it over."""
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect("keeper")
        asked.sendall(f"{address} {port}\n".encode())
        said, descriptors, _, _ = socket.recv_fds(asked, 500, 1)
    if not descriptors:
        sys.exit(f"the guest does not answer: {said[1:].decode(errors='replace')}")
    return socket.socket(fileno=descriptors[0])


def send(link: socket.socket, kind: bytes, payload: bytes = b"") -> None:
    """One frame."""
    link.sendall(HEAD.pack(kind, len(payload)) + payload)


def exactly(link: socket.socket, count: int) -> bytes:
    """That many bytes; ends this process when the guest hangs up."""
    parts = b""
    while len(parts) < count:
        part = link.recv(count - len(parts))
        if not part:
            sys.exit("the guest hung up")
        parts += part
    return parts


def relay(link: socket.socket) -> int:
    """Carry streams until the program ends; its status, as a shell would have it."""
    watched: list[socket.socket | int] = [link, 0]
    while True:
        for ready in select.select(watched, [], [])[0]:
            if ready == 0:
                data = os.read(0, CHUNK)
                send(link, b"0", data)
                if not data:
                    watched.remove(0)
                continue
            kind, length = HEAD.unpack(exactly(link, HEAD.size))
            payload = exactly(link, length)
            if kind == b"x":
                code = int(json.loads(payload)["code"])
                return code if code >= 0 else 128 - code
            if kind == b"j" and "error" in json.loads(payload):
                sys.exit(json.loads(payload)["error"]["message"])
            if kind in (b"1", b"2"):
                os.write(1 if kind == b"1" else 2, payload)


def size() -> tuple[int, int]:
    """Rows and columns of the terminal."""
    terminal = shutil.get_terminal_size()
    return terminal.lines, terminal.columns


def main() -> int:
    """See above."""
    folder, address, port, text = sys.argv[1:]
    order = json.loads(text)
    link = connect(folder, address, port)
    terminal = order["terminal"] and sys.stdin.isatty()
    request = {"op": "run", "argv": order["argv"], "env": order["env"], "terminal": size() if terminal else None}
    send(link, b"j", json.dumps(request).encode())
    if not terminal:
        return relay(link)
    signal.signal(signal.SIGWINCH, lambda _number, _frame: send(link, b"w", json.dumps(size()).encode()))
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        return relay(link)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    sys.exit(main())
