"""A long-lived librados client on a host, driven by lines of JSON. It saves the 0.24 s of CPU of each `ceph` call."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph.pgs import Pg, parse_pgs
from cephlab.lab.providers.host import Channel, Host

AGENT_SOURCE = Path(__file__).with_name("agent.py")
Started = tuple[PurePosixPath, Channel]
"""The agent's program on a host, and the channel to it."""

_PATIENCE_S = 150.0
"""Longer than Ceph's op timeouts (conf.py: 60 and 120 s), so that a hang of Ceph is reported by Ceph and not as an
error of the lab. All three are multiplied by patience."""
_FORMAT_S = 300.0


class RadosError(CephTrouble):
    """librados refused or failed an operation. errno: positive; 0 if there is none."""

    def __init__(self, operation: str, kind: str, errno: int, message: str) -> None:
        self.kind = kind
        self.errno = errno
        super().__init__(f"{operation} failed with {kind} (errno {errno})", message)


class CephCommandFailed(CephTrouble):
    """Ceph refused a command. code: negative errno; status: Ceph's own message."""

    def __init__(self, target: str, command: Mapping[str, Any], code: int, status: str) -> None:
        self.code = code
        self.status = status
        super().__init__(f"{target} refused {command.get('prefix')!r} with {code}", f"{status}\ncommand: {command}")


class RadosClient:
    """Ceph commands and object operations as seen from one host of the lab. Safe to share between threads."""

    def __init__(
        self,
        host: Host,
        conf: PurePosixPath,
        *,
        name: str = "client.admin",
        patience: float = 1.0,
        options: Mapping[str, str] | None = None,
        start: Callable[[Sequence[str]], Started] | None = None,
    ) -> None:
        """patience: factor on every timeout, for emulated hosts. options: ceph options of this client only.

        start: starts the agent with its arguments, in place of `start_agent`.
        """
        self.host = host
        self._patience = patience
        self._within: Mapping[str, str] = {}
        self._arguments = [str(conf), name, json.dumps(dict(options or {}))]
        self.script, self.channel = start(self._arguments) if start else start_agent(host, self._arguments)

    def close(self) -> None:
        self.channel.close()

    def alive(self) -> bool:
        return self.channel.alive()

    def call(self, operation: str, *, timeout_s: float = _PATIENCE_S, **arguments: Any) -> Any:
        """Send one request to the agent; RadosError with the errno of librados if it fails."""
        line = json.dumps({"op": operation, **self._within, **arguments}).encode()
        answer = json.loads(self.channel.ask(line, timeout_s=timeout_s * self._patience))
        if "error" in answer:
            error = answer["error"]
            raise RadosError(f"{operation} on {self.host.name}", error["type"], error["errno"], error["message"])
        return answer["ok"]

    def within(self, *, namespace: str = "", locator: str = "") -> RadosClient:
        """This client, with its object operations in a RADOS namespace, and placed by a locator key if one is given."""
        view = copy(self)
        view._within = {"namespace": namespace, "locator": locator}
        return view

    # Commands

    def command(
        self, target: str, prefix: str, *, payload: bytes = b"", timeout_s: float = _PATIENCE_S, **arguments: Any
    ) -> bytes:
        """Send a command to `mon`, `mgr`, `mon.ID`, `osd.ID` or `pg:PGID`; returns its raw output.

        Raises CephCommandFailed with the status text if Ceph refuses it.
        """
        command = {"prefix": prefix, **arguments}
        answer = self.call(
            "command", target=target, command=command, data=base64.b64encode(payload).decode(), timeout_s=timeout_s
        )
        if answer["code"] != 0:
            raise CephCommandFailed(target, command, int(answer["code"]), answer["status"])
        return base64.b64decode(answer["out"])

    def mon(self, prefix: str, **arguments: Any) -> Any:
        """A monitor command with JSON output, parsed; None if it prints nothing."""
        return self.tell("mon", prefix, **arguments)

    def mgr(self, prefix: str, **arguments: Any) -> Any:
        """A manager command with JSON output, parsed."""
        return self.tell("mgr", prefix, **arguments)

    def tell(self, target: str, prefix: str, *, timeout_s: float = _PATIENCE_S, **arguments: Any) -> Any:
        """A command to one daemon (`osd.0`, `mon.n0`) with JSON output, parsed."""
        out = self.command(target, prefix, timeout_s=timeout_s, **{"format": "json", **arguments})
        text = out.decode(errors="replace").strip()
        return json.loads(text) if text else None

    def later(self, after_s: float, prefix: str, **arguments: Any) -> None:
        """Have the host send a command to the monitors later, even if this client is closed by then.

        Nobody reads the answer; it is in the host's `log/later.log`.
        """
        request = {"op": "command", "target": "mon", "command": {"prefix": prefix, **arguments}}
        agent = shlex.join(["python3", str(self.script), *self._arguments])
        program = f"sleep {after_s:.1f}; printf '%s\\n' {shlex.quote(json.dumps(request))} | {agent}"
        self.host.spawn(["sh", "-c", program], log=self.host.directory / "log/later.log")

    def pgs(self, pgids: Sequence[str]) -> tuple[Pg, ...]:
        """Placement groups as their primaries see them now. Waits for a PG that has no primary."""
        return parse_pgs(self.call("pgs", pgids=list(pgids)))

    # Objects

    def write_full(self, pool: str, name: str, data: bytes) -> None:
        self.call("write_full", pool=pool, name=name, data=_text(data))

    def write(self, pool: str, name: str, data: bytes, offset: int) -> None:
        self.call("write", pool=pool, name=name, data=_text(data), offset=offset)

    def append(self, pool: str, name: str, data: bytes) -> None:
        self.call("append", pool=pool, name=name, data=_text(data))

    def truncate(self, pool: str, name: str, size: int) -> None:
        self.call("truncate", pool=pool, name=name, size=size)

    def read(self, pool: str, name: str, length: int = 1 << 26, offset: int = 0, *, snap: str | None = None) -> bytes:
        return base64.b64decode(self.call("read", pool=pool, name=name, length=length, offset=offset, snap=snap))

    def remove(self, pool: str, name: str) -> None:
        self.call("remove", pool=pool, name=name)

    def digest(self, pool: str, name: str, *, snap: str | None = None) -> dict[str, Any]:
        """{size, sha256, xattrs: {key: sha256}, omap: {key: sha256}} as this client reads the object."""
        return dict(self.call("digest", pool=pool, name=name, snap=snap))

    def list_objects(self, pool: str) -> list[str]:
        return list(self.call("list", pool=pool))

    def set_xattr(self, pool: str, name: str, key: str, data: bytes) -> None:
        self.call("set_xattr", pool=pool, name=name, key=key, data=_text(data))

    def set_omap(self, pool: str, name: str, pairs: Mapping[str, bytes]) -> None:
        self.call("set_omap", pool=pool, name=name, pairs={key: _text(value) for key, value in pairs.items()})

    def omap_in_order(self, pool: str, name: str, *, page: int) -> list[tuple[bytes, str]]:
        """(key, sha256 of its value) in the order in which the OSD serves them, `page` at a time."""
        served = self.call("omap_in_order", pool=pool, name=name, page=page)
        return [(bytes.fromhex(key), digest) for key, digest in served]

    def snap_create(self, pool: str, snap: str) -> None:
        self.call("snap_create", pool=pool, snap=snap)

    def snap_remove(self, pool: str, snap: str) -> None:
        self.call("snap_remove", pool=pool, snap=snap)

    def snap_rollback(self, pool: str, name: str, snap: str) -> None:
        self.call("snap_rollback", pool=pool, name=name, snap=snap)

    # Block device images. encryption: (luks1 or luks2, passphrase).

    def rbd_create(
        self,
        pool: str,
        image: str,
        size: int,
        *,
        order: int = 20,
        data_pool: str | None = None,
        features: int | None = None,
    ) -> None:
        """Make an image with objects of 2**order bytes. Its data go to data_pool if one is given.

        features: bits of RBD_FEATURE_*; None: those of the cluster's configuration.
        """
        self.call("rbd_create", pool=pool, image=image, size=size, order=order, data_pool=data_pool, features=features)

    def rbd_list(self, pool: str) -> list[str]:
        return list(self.call("rbd_list", pool=pool))

    def rbd_look(
        self, pool: str, image: str, pieces: Sequence[tuple[int, int]], *, snap: str | None = None
    ) -> dict[str, Any]:
        """{size, order, snaps, pieces: bytes each}; pieces: offset and length of each read."""
        looked = dict(self.call("rbd_look", pool=pool, image=image, pieces=list(pieces), snap=snap))
        return {**looked, "pieces": [base64.b64decode(piece) for piece in looked["pieces"]]}

    def rbd_resize(self, pool: str, image: str, size: int) -> None:
        self.call("rbd_resize", pool=pool, image=image, size=size)

    def rbd_remove(self, pool: str, image: str) -> None:
        self.call("rbd_remove", pool=pool, image=image)

    def rbd_write(
        self, pool: str, image: str, data: bytes, offset: int, *, encryption: tuple[str, str] | None = None
    ) -> None:
        self.call("rbd_write", pool=pool, image=image, data=_text(data), offset=offset, encryption=encryption)

    def rbd_hold(self, pool: str, image: str, pieces: Sequence[tuple[int, bytes]]) -> None:
        """Take an image's exclusive lock, write pieces with a flush after each, and keep it, with a cache.

        pieces: offset and data.
        """
        self.call("rbd_hold", pool=pool, image=image, pieces=[(offset, _text(data)) for offset, data in pieces])

    def rbd_release(self, image: str) -> None:
        """Close an image that this client holds."""
        self.call("rbd_release", image=image)

    def rbd_discard(self, pool: str, image: str, offset: int, length: int) -> None:
        """Discard a range, of which librbd leaves parts below 64 KiB at its ends as they are by default."""
        self.call("rbd_discard", pool=pool, image=image, offset=offset, length=length)

    def rbd_digest(
        self, pool: str, image: str, length: int, *, snap: str | None = None, encryption: tuple[str, str] | None = None
    ) -> str:
        """sha256 of the first `length` bytes as this client reads them."""
        digest = self.call("rbd_digest", pool=pool, image=image, length=length, snap=snap, encryption=encryption)
        return str(digest["sha256"])

    def rbd_snap(self, pool: str, image: str, snap: str) -> None:
        """Make a snapshot, protected so that it can be cloned."""
        self.call("rbd_snap", pool=pool, image=image, snap=snap)

    def rbd_clone(self, pool: str, image: str, snap: str, child: str) -> None:
        self.call("rbd_clone", pool=pool, image=image, snap=snap, child=child)

    def rbd_encrypt(self, pool: str, image: str, encryption: tuple[str, str]) -> None:
        """Format an image. Its content is lost."""
        self.call("rbd_encrypt", pool=pool, image=image, encryption=encryption, timeout_s=_FORMAT_S)


def start_agent(host: Host, arguments: Sequence[str]) -> Started:
    """Copy the agent to the host's directory and start it."""
    script = host.directory / AGENT_SOURCE.name
    host.push(AGENT_SOURCE, script)
    return script, host.channel(["python3", str(script), *arguments])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
