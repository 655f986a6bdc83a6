"""User-Mode Linux' management console: one command to a kernel that runs, over its socket.

Run as a script in the kernel's network namespace, because the kernel answers to a name of that namespace. Arguments:
path of the socket, which may be relative, and the command. Packets are those of arch/um/drivers/mconsole.h.
"""

from __future__ import annotations

import socket
import struct
import sys

MAGIC = 0xCAFEBABE
VERSION = 2
MAX = 512
REQUEST = struct.Struct(f"=III{MAX}s")
REPLY = struct.Struct("=iiI")
TIMEOUT_S = 10.0


def command(path: str, text: str) -> tuple[bool, str]:
    """Whether it was carried out, and what was printed."""
    said = ""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.settimeout(TIMEOUT_S)
        link.bind("")  # a name of the system's choice, for the answer
        link.sendto(REQUEST.pack(MAGIC, VERSION, len(text), text.encode()), path)
        while True:
            packet = link.recv(REPLY.size + MAX)
            failed, more, length = REPLY.unpack_from(packet)
            said += packet[REPLY.size : REPLY.size + length].rstrip(b"\0").decode(errors="replace")
            if failed or not more:
                return not failed, said


def main() -> int:
    """See above."""
    try:
        done, said = command(sys.argv[1], sys.argv[2])
    except OSError as error:
        done, said = False, f"the kernel does not answer: {error}"
    sys.stdout.write(f"{said}\n")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
