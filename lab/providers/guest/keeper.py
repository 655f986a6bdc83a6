"""Keeps a run's network alive and opens connections in it: a process in the network's namespace, asked over a socket.

The lab's own Python runs it as a script. The namespace, with its bridge and interfaces, ends with its last process. A
request is a line `ADDRESS PORT`; the answer is `k` with the connected socket attached, or `e` and the reason.
"""

import os
import socket
import sys
import threading

CONNECT_S = 10.0


def serve(link: socket.socket) -> None:
    """Answer one request."""
    with link:
        address, _, port = link.recv(200).decode().strip().partition(" ")
        try:
            with socket.create_connection((address, int(port)), timeout=CONNECT_S) as connected:
                connected.setblocking(True)
                socket.send_fds(link, [b"k"], [connected.fileno()])
        except OSError as error:
            link.sendall(b"e" + str(error).encode())


def main() -> None:
    """Listen on a socket in the given folder, and say so on standard output."""
    os.chdir(sys.argv[1])  # a socket's path has at most 107 bytes
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[2])
    server.listen(64)
    os.write(1, b"ready\n")
    while True:
        link, _ = server.accept()
        threading.Thread(target=serve, args=(link,), daemon=True).start()


if __name__ == "__main__":
    main()
