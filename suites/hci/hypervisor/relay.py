"""Runs on a host, under the image's Python: carries lines between the lab and a socket of QEMU's on that host.

With `monitor` behind the socket's path it speaks to QEMU's monitor: its greeting and its events answer nothing that was
asked, and are left out.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading


def outward(link: socket.socket, *, monitor: bool) -> None:
    """What is said there, until it is gone; then this program is of no use any more."""
    for line in link.makefile("rb"):
        if not (monitor and {"QMP", "event"} & json.loads(line).keys()):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    os._exit(0)


def main() -> None:
    """Until the lab closes its end."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    monitor = sys.argv[2:] == ["monitor"]
    threading.Thread(target=outward, args=(link,), kwargs={"monitor": monitor}, daemon=True).start()
    for line in sys.stdin.buffer:
        link.sendall(line)


if __name__ == "__main__":
    main()
