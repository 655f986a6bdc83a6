"""A command that a host sends later: what its shell runs, with quotes in names, and that nothing is sent before."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Channel, Host


@dataclass
class Spawning:
    """A host that notes what was spawned on it."""

    directory: PurePosixPath
    spawned: list[tuple[Sequence[str], PurePosixPath]] = field(default_factory=list)

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath) -> None:
        self.spawned.append((argv, log))


def later(folder: Path, after_s: float, **arguments: Any) -> tuple[Sequence[str], PurePosixPath]:
    host = Spawning(PurePosixPath("/node"))
    script = PurePosixPath(folder / "it's the agent.py")
    Path(script).write_text("import sys\nprint(sys.argv[1:])\nprint(sys.stdin.read(), end='')\n")
    channel = cast("Channel", SimpleNamespace())
    client = RadosClient(
        cast("Host", host),
        PurePosixPath("/node/ceph conf"),
        options={"key": "it's"},
        start=lambda _arguments: (script, channel),
    )
    client.later(after_s, "config rm", **arguments)
    (spawned,) = host.spawned
    return spawned


def test_a_later_command_is_one_request_to_an_agent_like_the_clients(tmp_path: Path) -> None:
    argv, log = later(tmp_path, 0.0, who="mon", name="it's\n$HOME")
    told = subprocess.run(argv, capture_output=True, text=True, check=True, env=dict(os.environ)).stdout.splitlines()
    assert told[0] == str(["/node/ceph conf", "client.admin", json.dumps({"key": "it's"})])
    command = {"prefix": "config rm", "who": "mon", "name": "it's\n$HOME"}
    assert [json.loads(line) for line in told[1:]] == [{"op": "command", "target": "mon", "command": command}]
    assert log == PurePosixPath("/node/log/later.log")


def test_it_is_sent_when_its_time_has_come(tmp_path: Path) -> None:
    argv, _ = later(tmp_path, 21.36)
    assert argv[:2] == ["sh", "-c"]
    assert argv[2].startswith("sleep 21.4; ")
