"""Connects a terminal, or plain streams, to a program in a guest. `cephlab shell` and others run it as a script.

Arguments: the folder of the network's keeper, the agent's address and port, a request (JSON: argv, env, terminal).
"""

import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty

HEAD = struct.Struct(">cI")
CHUNK = 1 << 16


def connect(folder: str, address: str, port: str) -> socket.socket:
    """A connection in the run's network, which the keeper opens and passes back."""
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as keeper:
        keeper.connect("keeper")
        keeper.sendall(f"{address} {port}\n".encode())
        answer, descriptors, _, _ = socket.recv_fds(keeper, 500, 1)
    if not descriptors:
        sys.exit(f"the guest does not answer: {answer[1:].decode(errors='replace')}")
    return socket.socket(fileno=descriptors[0])


def send(link: socket.socket, kind: bytes, payload: bytes = b"") -> None:
    """Send one frame."""
    link.sendall(HEAD.pack(kind, len(payload)) + payload)


def exactly(link: socket.socket, count: int) -> bytes:
    """Read that many bytes. Ends this process when the guest hangs up."""
    parts = b""
    while len(parts) < count:
        part = link.recv(count - len(parts))
        if not part:
            sys.exit("the guest closed the connection")
        parts += part
    return parts


def relay(link: socket.socket, *resized: int) -> int:
    """Relay streams until the program ends; returns its status as a shell would.

    resized: a pipe that can be read once the terminal has another size (see `resizes`).
    """
    watched: list[socket.socket | int] = [link, 0, *resized]
    while True:
        for ready in select.select(watched, [], [])[0]:
            if ready in resized:
                os.read(resized[0], CHUNK)
                send(link, b"w", json.dumps(size()).encode())
                continue
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
    """Rows and columns of the terminal, whatever LINES and COLUMNS say of another one."""
    terminal = os.get_terminal_size(0)
    return terminal.lines, terminal.columns


def resizes() -> int:
    """A pipe into which every change of the terminal's size is written.

    A signal handler that sent the size itself would do so within a frame that is being sent.
    """
    reader, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    return reader


def main() -> int:
    """Run the program; returns its status."""
    folder, address, port, text = sys.argv[1:]
    request = json.loads(text)
    link = connect(folder, address, port)
    terminal = request["terminal"] and sys.stdin.isatty()
    resized = [resizes()] if terminal else []
    send(link, b"j", json.dumps({"op": "run", **request, "terminal": size() if terminal else None}).encode())
    if not terminal:
        return relay(link)
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # keeps what was typed meanwhile
    try:
        return relay(link, *resized)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    sys.exit(main())
