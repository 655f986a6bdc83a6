"""Small programs that contract tests run on hosts, under the image's Python."""

import secrets
from pathlib import PurePosixPath

import psutil

from cephlab.lab.providers.host import Host

# Command lines of all processes that contain the mark, without this one's own.
_FIND = """
import glob, os, sys
for path in glob.glob('/proc/[0-9]*/cmdline'):
    if path != f'/proc/{os.getpid()}/cmdline':
        try:
            line = open(path, 'rb').read()
        except OSError:
            continue
        if sys.argv[1].encode() in line and b'glob' not in line:
            print(path)
"""

POLITE = """
import signal, sys, time
def bye(number, frame):
    print('bye')
    sys.exit(4)
signal.signal(signal.SIGTERM, bye)
print('ready')
while True:
    time.sleep(0.05)
    sys.stdout.write('tick\\n')  # at once: a stop finds no half line
"""

LINES = """
import sys
for line in sys.stdin:
    print(line, end='', flush=True)
"""

LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('ready')
while True:
    client, peer = server.accept()
    client.sendall(b'hello')
    client.close()
"""

CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2) as link:
    print(link.recv(5).decode())
"""


def mark() -> str:
    """A word that no other command line has: `sleep` takes it as a number of seconds."""
    return f"300.{secrets.randbelow(10**9):09d}"


def processes_with(host: Host, word: str) -> list[str]:
    """Processes whose command line has the word, as this machine sees them and as the host does.

    An emulated program may see an empty /proc; the processes of a host elsewhere are not in ours.
    """
    here = [str(process.pid) for process in psutil.process_iter() if word in _command_of(process)]
    return here + host.run(("python3", "-c", _FIND, word)).stdout.split()


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def python(source: str, *arguments: str) -> tuple[str, ...]:
    return ("python3", "-u", "-c", source, *arguments)


def scratch(host: Host) -> PurePosixPath:
    """A path below the host's directory that nothing else uses."""
    return host.directory / f"t{secrets.token_hex(4)}"
