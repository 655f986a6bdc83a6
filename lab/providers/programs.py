"""Python programs on hosts that answer requests, kept running: Python takes half a second to start on emulated ones."""

import json
import threading
from pathlib import Path
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.providers.host import Channel, Host

_SERVE = """
import json
import sys

for _line in sys.stdin:
    print(json.dumps(answer(json.loads(_line))), flush=True)
"""
"""Follows a program's source."""


class Programs:
    """The programs of one cluster. Its methods may be called from several threads."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, Path], Channel] = {}
        self._lock = threading.Lock()

    def ask(self, host: Host, program: Path, request: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """What `answer(request)` of a program returns on a host. Requests to the same one wait for each other.

        The program starts with the first request, and again after it has ended, as when its machine was off. Raises
        CommandFailed with its errors if it fails, CommandTimedOut, or LabBroken when the host is down.
        """
        channel = self._channel(host, program)
        with clock.spending(f"ask {program.stem}"):
            return dict(json.loads(channel.ask(json.dumps(request).encode(), timeout_s=timeout_s)))

    def _channel(self, host: Host, program: Path) -> Channel:
        with self._lock:
            key = (host.name, program)
            known = self._channels.get(key)
            if known is not None and known.alive() and host.up():
                return known
            if known is not None:
                known.close()
            self._channels[key] = host.channel(["python3", "-I", "-S", "-c", program.read_text() + _SERVE])
            return self._channels[key]

    def close(self) -> None:
        """End every program."""
        with self._lock:
            for channel in self._channels.values():
                channel.close()
            self._channels.clear()
