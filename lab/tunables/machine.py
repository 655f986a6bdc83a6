"""Reads, changes and restores the settings of one machine, in its files under /proc, /sys and /etc."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cephlab.lab.base import process
from cephlab.lab.base.process import Result
from cephlab.lab.tunables.settings import Finding, Kind, Setting, State

THIS_MACHINE = "this machine"
LIMITS_FOLDER = "/etc/security/limits.d"
_LIMITS = ("/etc/security/limits.conf", f"{LIMITS_FOLDER}/*.conf")
_SWAPS = "/proc/swaps"
_CMDLINE = "/proc/cmdline"
_SCRIPT = Path(__file__).with_name("on_host.py").read_text()
_SHOWN = 3

Seen = bytes | str
"""Content of a file, or why it could not be read."""


class Runner(Protocol):
    """Runs programs on a machine: any Host, or `ThisMachine`."""

    @property
    def name(self) -> str: ...

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result: ...


@dataclass(frozen=True)
class ThisMachine:
    """The machine that cephlab itself runs on."""

    name: str = THIS_MACHINE

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        return process.run(argv, timeout_s=timeout_s, stdin=stdin)


@dataclass(frozen=True)
class Write:
    """The new content of a file; None removes the file. create: whether the file may be new."""

    path: str
    data: bytes | None
    create: bool = False


@dataclass(frozen=True)
class Machine:
    """One machine. where: its name in findings; address: IPv4 of its cluster interface, empty if unknown."""

    where: str
    runner: Runner
    address: str = ""

    def read(self, patterns: Sequence[str]) -> dict[str, dict[str, Seen]]:
        """Pattern -> every file that matches it, by path."""
        answer = self._ask(read=list(dict.fromkeys(patterns)))
        return {
            pattern: {
                path: base64.b64decode(content["data"]) if "data" in content else str(content["error"])
                for path, content in files.items()
            }
            for pattern, files in answer["read"].items()
        }

    def write(self, writes: Sequence[Write]) -> dict[str, str]:
        """Write files; returns path -> error, for the files that could not be written."""
        items = [
            {
                "path": write.path,
                "data": None if write.data is None else base64.b64encode(write.data).decode(),
                "create": write.create,
            }
            for write in writes
        ]
        answer = self._ask(write=items)
        return {write.path: error for write, error in zip(writes, answer["write"], strict=True) if error}

    def swap(self, wanted: str | Sequence[str]) -> list[str]:
        """Switch all swap off, or on again from the lines of an earlier /proc/swaps; returns the errors."""
        errors: list[str] = self._ask(swap=wanted)["swap"]
        return errors

    def _ask(self, **request: Any) -> dict[str, Any]:
        whole = {"address": self.address, "read": [], "write": [], "swap": None, **request}
        result = self.runner.run(("python3", "-c", _SCRIPT), stdin=json.dumps(whole).encode())
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer


def patterns(setting: Setting) -> tuple[str, ...]:
    """The files that show a setting; empty if no file does."""
    if setting.kind is Kind.SYSCTL:
        return ("/proc/sys/" + setting.key.replace(".", "/"),)
    if setting.kind is Kind.SYSFS:
        return (setting.key,)
    return _PATTERNS.get(setting.kind, ())


_PATTERNS: Mapping[Kind, tuple[str, ...]] = {
    Kind.MTU: ("/sys/class/net/{interface}/mtu",),
    Kind.SWAP: (_SWAPS,),
    Kind.LIMITS: _LIMITS,
    Kind.CMDLINE: (_CMDLINE,),
}


def current(content: bytes) -> str:
    """The value in a file of /proc or /sys; if the file lists choices, the word in brackets."""
    words = content.decode(errors="replace").split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if chosen else " ".join(words)


def same(left: str, right: str) -> bool:
    """Whether two spellings mean the same value. Numbers are compared as numbers, other values word by word."""
    if left.split() == right.split():
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return {left.lower(), right.lower()} in ({"true", "1"}, {"false", "0"})


def judge(where: str, setting: Setting, sight: Mapping[str, Mapping[str, Seen]]) -> Finding:
    """The state of a setting, from the files that show it. sight: pattern -> path -> content, from `Machine.read`."""
    if not patterns(setting):
        return Finding(where, setting, State.UNSEEN, why="a running machine does not show it; check it by hand")
    files = {path: content for pattern in patterns(setting) for path, content in sight[pattern].items()}
    if not files and setting.kind is not Kind.LIMITS:
        unknown = "the interface of the cluster network is not known"
        why = unknown if setting.kind is Kind.MTU else f"{' or '.join(patterns(setting))} does not exist"
        return Finding(where, setting, State.MISSING, why=why)
    refused = [f"{path}: {content}" for path, content in files.items() if isinstance(content, str)]
    if refused:
        return Finding(where, setting, State.UNREADABLE, why=refused[0])
    contents = {path: content for path, content in files.items() if isinstance(content, bytes)}
    return _JUDGES.get(setting.kind, _judge_values)(where, setting, contents)


def _judge_values(where: str, setting: Setting, contents: Mapping[str, bytes]) -> Finding:
    values = {path: current(content) for path, content in contents.items()}
    wrong = {path: value for path, value in values.items() if not same(value, setting.value)}
    if not wrong:
        return Finding(where, setting, State.SET, got=setting.value)
    return Finding(where, setting, State.DRIFT, got=_wrong_text(wrong, len(values)))


def _wrong_text(wrong: Mapping[str, str], total: int) -> str:
    if total == 1:
        return next(iter(wrong.values()))
    examples = ", ".join(f"{value} in {path}" for path, value in list(wrong.items())[:_SHOWN])
    return f"{len(wrong)} of {total} differ: {examples}{', ...' if len(wrong) > _SHOWN else ''}"


def swap_areas(content: bytes) -> list[str]:
    """Devices and files of /proc/swaps."""
    return [line.rsplit(None, 4)[0] for line in content.decode().splitlines()[1:]]


def _judge_swap(where: str, setting: Setting, contents: Mapping[str, bytes]) -> Finding:
    areas = swap_areas(contents[_SWAPS])
    state = State.DRIFT if areas else State.SET
    return Finding(where, setting, state, got=", ".join(areas) or "off")


def _judge_cmdline(where: str, setting: Setting, contents: Mapping[str, bytes]) -> Finding:
    words = contents[_CMDLINE].decode(errors="replace").split()
    if setting.key in words:
        return Finding(where, setting, State.SET, got=setting.key)
    name = setting.key.partition("=")[0]
    other = [word for word in words if word.partition("=")[0] == name]
    return Finding(where, setting, State.DRIFT, got=", ".join(other) or "not set")


def _judge_limit(where: str, setting: Setting, contents: Mapping[str, bytes]) -> Finding:
    limits = list(_limits_of(setting.key, contents))
    if not limits:
        return Finding(where, setting, State.DRIFT, got="not set")
    # pam_limits reads limits.conf, then limits.d sorted by name. The last line for a domain, type and item counts.
    state = State.SET if same(limits[-1], setting.value) else State.DRIFT
    return Finding(where, setting, state, got=limits[-1])


def _limits_of(key: str, contents: Mapping[str, bytes]) -> Iterator[str]:
    """Values of the lines for `DOMAIN TYPE ITEM`, in the order of reading."""
    for content in contents.values():
        for line in content.decode(errors="replace").splitlines():
            words = line.partition("#")[0].split()
            if words[:3] == key.split() and len(words) == 4:
                yield words[3]


_JUDGES: Mapping[Kind, Callable[[str, Setting, Mapping[str, bytes]], Finding]] = {
    Kind.SWAP: _judge_swap,
    Kind.CMDLINE: _judge_cmdline,
    Kind.LIMITS: _judge_limit,
}


def limits_file(tuning: str) -> str:
    """The file for a tuning's limits. Its name sorts after the files of the distribution."""
    return f"{LIMITS_FOLDER}/95-cephlab-{re.sub(r'[^a-z0-9-]', '-', tuning)}.conf"


def limits_text(tuning: str, settings: Sequence[Setting]) -> bytes:
    """The content of the limits file."""
    lines = [f"# cephlab tuning {tuning}", *(f"{setting.key} {setting.value}" for setting in settings)]
    return ("\n".join(lines) + "\n").encode()
