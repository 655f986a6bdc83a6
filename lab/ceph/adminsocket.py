"""Asks a daemon itself: over Ceph's network if its release answers there, else through its admin socket."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.providers.host import Host

_SOCKET_S = 20.0

# The protocol of Ceph's admin socket (src/common/admin_socket.cc): JSON and a zero byte, a length and the answer back.
_ASK = """
import json, socket, struct, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
asked.sendall(json.dumps({"prefix": sys.argv[2]}).encode() + bytes(1))
stream = asked.makefile("rb")
length = struct.unpack(">I", stream.read(4))[0]
sys.stdout.write(stream.read(length).decode())
"""


def tell(client: RadosClient, daemons: Mapping[str, Daemon], name: str, prefix: str) -> Any:
    """The JSON answer of a daemon to one of its own commands.

    Before Octopus a daemon takes most commands through its admin socket only. So a command that is refused with EINVAL
    is tried there, if the daemon is in `daemons`. CephCommandFailed has the first refusal if the socket fails too.
    """
    try:
        return client.tell(name, prefix)
    except CephCommandFailed as error:
        if error.code != -errno.EINVAL or name not in daemons:
            raise
        host = daemons[name].host
        try:
            return ask_socket(host, conf.socket_path(host, name), prefix)
        except LabError:
            raise error from None


def ask_socket(host: Host, socket: PurePosixPath, command: str, *, patience: float = 1.0) -> Any:
    """The answer to a command through an admin socket on a host. It needs no quorum."""
    answer = host.run(["python3", "-c", _ASK, str(socket), command], timeout_s=_SOCKET_S * patience)
    try:
        return json.loads(answer.stdout)
    except json.JSONDecodeError as error:
        raise LabBroken(f"{socket} on {host.name} gave no answer to {command}", answer.stdout[:200]) from error
