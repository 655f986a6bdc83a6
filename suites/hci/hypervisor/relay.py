"""Relays lines between the lab and a QEMU socket on a host. Runs there under the image's Python.

With `monitor` after the socket's path, the socket is that of QEMU's monitor. Its greeting and events are left out,
because they answer no request.
"""

import json
import os
import socket
import sys
import threading


def outward(link: socket.socket, *, monitor: bool) -> None:
    """Print the socket's lines until it closes, then end this program."""
    try:
        for line in link.makefile("rb"):
            if not (monitor and {"QMP", "event"} & json.loads(line).keys()):
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
    finally:
        # If QEMU is killed with a line unread, the socket is reset: that raises an error instead of ending the file.
        os._exit(0)


def main() -> None:
    """Relay lines until the lab closes its end."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    monitor = sys.argv[2:] == ["monitor"]
    threading.Thread(target=outward, args=(link,), kwargs={"monitor": monitor}, daemon=True).start()
    for line in sys.stdin.buffer:
        link.sendall(line)


if __name__ == "__main__":
    main()
