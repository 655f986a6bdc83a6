"""User-Mode Linux' management console: sends one command to a running kernel over its socket.

Run as a script in the kernel's network namespace, because the kernel answers to a socket name of that namespace.
Arguments: path of the socket, possibly relative, and the command. Packets are those of arch/um/drivers/mconsole.h.
"""

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
    """Send a command. Returns whether it succeeded, and its output."""
    output = ""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.settimeout(TIMEOUT_S)
        link.bind("")  # the system chooses a name for the answer
        link.sendto(REQUEST.pack(MAGIC, VERSION, len(text), text.encode()), path)
        while True:
            packet = link.recv(REPLY.size + MAX)
            failed, more, length = REPLY.unpack_from(packet)
            output += packet[REPLY.size : REPLY.size + length].rstrip(b"\0").decode(errors="replace")
            if failed or not more:
                return not failed, output


def main() -> int:
    """Run the command of the arguments and print its output."""
    try:
        succeeded, output = command(sys.argv[1], sys.argv[2])
    except OSError as error:
        succeeded, output = False, f"the kernel does not answer: {error}"
    sys.stdout.write(f"{output}\n")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
