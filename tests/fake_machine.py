"""A machine whose files are a dictionary, and a cluster whose options are one: what tunings are tried on."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from cephlab.lab.base.process import Result
from cephlab.lab.ceph.client import CephCommandFailed

SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2  partition\t1048572\t\t0\t\t-2\n"


class Killed(BaseException):
    """What kill -9 looks like from inside: nothing after it runs."""


@dataclass
class FakeMachine:
    """read_only: paths that refuse to be written, hidden: to be read.

    dies_after: writes until the caller is killed; None is never. swap_becomes: /proc/swaps once swap is on again.
    """

    name: str = "n0"
    files: dict[str, bytes] = field(default_factory=dict)
    read_only: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    dies_after: int | None = None
    writes: int = 0
    swap_becomes: str = ""

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        request = json.loads(stdin)
        answer = {
            "write": [self._write(item) for item in request["write"]],
            "swap": self._swap(request["swap"]),
            "read": {pattern: self._read(pattern, request["address"]) for pattern in request["read"]},
        }
        return Result(tuple(argv), 0, json.dumps(answer).encode(), b"")

    def _read(self, pattern: str, address: str) -> dict[str, dict[str, str]]:
        if "{interface}" in pattern:
            pattern = pattern.replace("{interface}", "eth0") if address else "nothing"
        paths = sorted(path for path in self.files if fnmatchcase(path, pattern))
        seen = {path: {"data": base64.b64encode(self.files[path]).decode()} for path in paths}
        return {**seen, **{path: {"error": "EACCES: Permission denied"} for path in paths if path in self.hidden}}

    def _count(self) -> None:
        if self.dies_after is not None and self.writes >= self.dies_after:
            raise Killed
        self.writes += 1

    def _write(self, item: dict[str, Any]) -> str | None:
        path, data = item["path"], item["data"]
        self._count()
        if path in self.read_only:
            return "EROFS: Read-only file system"
        if path not in self.files and not item["create"]:
            return "ENOENT: No such file or directory"
        if data is None:
            self.files.pop(path, None)
            return None
        content = base64.b64decode(data)
        if path.startswith("/sys/") and b"[" in self.files.get(path, b""):
            words = self.files[path].decode().replace("[", "").replace("]", "").split()
            chosen = content.decode().strip()
            if chosen not in words:
                return "EINVAL: Invalid argument"
            content = (" ".join(f"[{word}]" if word == chosen else word for word in words) + "\n").encode()
        self.files[path] = content
        return None

    def _swap(self, wanted: Any) -> list[str]:
        if wanted is None:
            return []
        self._count()
        head = SWAPS.splitlines()[0]
        lines = [head] if wanted == "off" else self.swap_becomes.splitlines() or list(wanted)
        self.files["/proc/swaps"] = ("\n".join(lines) + "\n").encode()
        return []


@dataclass
class FakeClient:
    """A configuration database, and daemons that read it.

    overrides: what their own ceph.conf says; fixed: options that they read at their start alone.
    """

    known: dict[str, str]
    database: dict[tuple[str, str], str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def started(self) -> None:
        """All daemons have started again."""
        self.fixed.clear()

    def mon(self, prefix: str, **arguments: Any) -> Any:
        if prefix == "config dump":
            entries = [{"section": section, "name": name, "value": v} for (section, name), v in self.database.items()]
            return [*entries, {"section": "osd", "name": "debug_osd", "value": "9", "mask": "class:ssd"}]
        if prefix == "config help":
            if arguments["key"] not in self.known:
                raise CephCommandFailed("mon", {"prefix": prefix}, -2, "unrecognized option")
            return {"name": arguments["key"], "can_update_at_runtime": arguments["key"] not in self.fixed}
        place = (arguments["who"], arguments["name"])
        if prefix == "config set":
            if arguments["value"] == "nonsense":
                raise CephCommandFailed("mon", {"prefix": prefix}, -22, "error parsing value")
            self.database[place] = arguments["value"]
            return None
        assert prefix == "config rm"
        del self.database[place]
        return None

    def tell(self, target: str, prefix: str, **_arguments: Any) -> Any:
        assert prefix == "config show"
        kind = target.partition(".")[0]
        shown = dict(self.known)
        for section in ("global", kind, target):
            entries = {name: value for (where, name), value in self.database.items() if where == section}
            shown.update({name: value for name, value in entries.items() if name not in self.fixed})
        return {**shown, **self.overrides}
