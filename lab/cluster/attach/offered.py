"""Limits a scenario's programs to the run's own cephx entity. It prevents mistakes, not intent."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from cephlab.lab.cluster.attach.guard import NotPermitted

NOWHERE = PurePosixPath("/dev/null")

_CLIENTS = re.compile(
    r"ceph(-fuse|-volume|adm|fs-(data-scan|journal-tool|mirror|shell|table-tool|top))?|microceph(\.[a-z-]+)?"
    r"|rados(gw-admin)?|rbd(-fuse|-mirror|-nbd)?"
)
_IN_CODE = re.compile(rf"{_CLIENTS.pattern}|cephfs")
"""Also Python modules. Most of them are named after a client."""

_INTERPRETERS = re.compile(r"bash|dash|ksh|sh|zsh|perl|python[0-9.]*")
_PREFIXES = re.compile(
    r"chroot|doas|env|ionice|nice|nohup|nsenter|numactl|runuser|setpriv|setsid|stdbuf|strace|su|sudo|taskset|time|timeout"
    r"|unshare|watch|xargs"
)
"""Programs that run another program, named on their command line."""

_CODE = re.compile(r"-[A-Za-z]*c.*", re.DOTALL)
_PERL_CODE = re.compile(r"-[A-Za-z]*[Ee].*", re.DOTALL)
_FROM_INPUT = {"-", "-s"}
"""Options after which an interpreter's other words are arguments, as its code comes from its input."""
_VALUED = {"-W", "-X", "-o", "-O", "+o", "+O", "-I", "--rcfile", "--init-file", "--check-hash-based-pycs"}
"""Options of interpreters whose value is the next word."""
_WORDS = re.compile(r"[\w./-]+")
_PATHS = re.compile(r"[^\s\"'`=:,;|&<>(){}\[\]$]+")
_VARIABLES = re.compile(r"\bCEPH_(?:ARGS|CLIENT_ID|CONF|KEYRING)\b")
_ADMIN = re.compile(r"\bclient\.admin\b|\bid[=\s]+admin\b")
_FIO_CLIENT = re.compile(r"--clientname[=\s]+(\S+)")
_OPTIONS = {
    "-n": "name",
    "--name": "name",
    "--id": "id",
    "--user": "id",
    "-c": "file",
    "--conf": "file",
    "-k": "file",
    "--keyring": "file",
    "-K": "key",
    "--key": "key",
    "--keyfile": "key",
}
_KEY_PLACES = ("/etc/ceph", "/var/lib/ceph", "/var/snap/microceph")


class OtherEntity(NotPermitted):
    """A program was not started, because it could act as a cephx entity other than the run's own."""


@dataclass(frozen=True)
class Offered:
    """What programs may use on a machine.

    own: the scenario's folder, inside the lab's folder, inside the run's folder. entity: the cephx entity that Ceph
    limits to the pools on the list; empty if there is none.
    """

    host: str
    own: PurePosixPath
    entity: str

    def environment(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """Environment in which a program without options acts as the entity and finds no other keys."""
        if not self.entity:
            return {"CEPH_CONF": str(NOWHERE), "CEPH_KEYRING": str(NOWHERE), **(given or {})}
        own = {"CEPH_CONF": str(self.own / "ceph.conf"), "CEPH_KEYRING": str(self.own / "keyring"), **(given or {})}
        # One word, because `ceph` ignores a word of CEPH_ARGS that is on its command line too.
        return own | {"CEPH_ARGS": f"--name={self.entity} {own.get('CEPH_ARGS', '')}".strip()}

    def judge(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        stdin: bytes = b"",
        cwd: PurePosixPath | None = None,
    ) -> None:
        """Raise OtherEntity unless the command line shows that a program acts as the entity."""
        reached = sorted(set(_reached(argv, stdin)))
        if reached:
            self._refuse(f"{argv[0]}, which could start {', '.join(reached)},")
        self._variables(dict(env or {}))
        words = " ".join((*argv, *(env or {}).values(), _code(argv, stdin)))
        for match in _FIO_CLIENT.finditer(words):
            self._require(argv[0], f"client.{match[1].removeprefix('client.')}")
        if _CLIENTS.fullmatch(_name(argv[0])):
            self._client(argv)
        if _ADMIN.search(words):
            self._refuse(f"{argv[0]} as client.admin")
        for word in _PATHS.findall(words):
            if "/" in word:
                path = posixpath.normpath((cwd or self.own) / word)
                self.place(PurePosixPath(path), f"{argv[0]} with {word}")

    def _variables(self, env: Mapping[str, str]) -> None:
        if "CEPH_CLIENT_ID" in env:
            self._require("CEPH_CLIENT_ID", f"client.{env['CEPH_CLIENT_ID']}")
        for variable in ("CEPH_CONF", "CEPH_KEYRING"):
            if variable in env:
                self._file(variable, env[variable])
        for kind, value in _options(env.get("CEPH_ARGS", "").split()):
            self._option("CEPH_ARGS", kind, value)

    def _client(self, argv: Sequence[str]) -> None:
        kinds = set()
        for kind, value in _options(argv[1:]):
            self._option(argv[0], kind, value)
            kinds.add(kind)
        if not kinds & {"name", "id"}:
            self._refuse(f"{argv[0]} without a name, which means client.admin,")

    def _option(self, program: str, kind: str, value: str) -> None:
        if kind == "key":
            self._refuse(f"{program} with a key of its own")
        if kind == "short":  # `ceph` takes it for the whole option, other clients ignore it
            self._refuse(f"{program} with {value}, a shortened option,")
        if kind == "file":
            self._file(program, value)
        else:
            self._require(program, value if kind == "name" else f"client.{value}")

    def _require(self, program: str, entity: str) -> None:
        if not entity or entity != self.entity:  # `ceph` takes an empty name for client.admin
            self._refuse(f"{program} as {entity}")

    def _file(self, program: str, path: str) -> None:
        plain = PurePosixPath(posixpath.normpath(path))
        if plain != NOWHERE and not plain.is_relative_to(self.own):
            self._refuse(f"{program} with {path}")

    def place(self, path: PurePosixPath, what: str, own: PurePosixPath | None = None) -> None:
        """Raise OtherEntity if a path is in the lab's folder or may hold keys. own: the resolved scenario folder."""
        own = own or self.own
        if path.is_relative_to(own):
            return
        if path.is_relative_to(own.parent.parent):
            self._refuse(f"{what}, in the lab's own folder,")
        if path.name == "keyring" or path.suffix == ".keyring" or any(map(path.is_relative_to, _KEY_PLACES)):
            self._refuse(f"{what}, where keys of other entities are,")

    def _refuse(self, what: str) -> None:
        files = f"files below {self.own}"
        client = f"a Ceph client started directly with -n {self.entity}; {files}"
        allowed = client if self.entity else f"{files}; the list has no pool"
        raise OtherEntity(f"{what} on {self.host}", hint=f"allowed: {allowed}")


def _reached(argv: Sequence[str], stdin: bytes) -> Iterator[str]:
    """Ceph clients, and their environment variables, that a program uses through another program."""
    yield from _of_code(_code(argv, stdin))
    if not _PREFIXES.fullmatch(_name(argv[0])):
        return
    for place, word in enumerate(argv):
        if _CLIENTS.fullmatch(_name(word)):
            yield _name(word)
        yield from _VARIABLES.findall(word)
        yield from _of_code(_code(argv[place:], stdin))


def _code(argv: Sequence[str], stdin: bytes) -> str:
    """The code that an interpreter runs: from its command line, or from its input if the command line names no file."""
    if not _INTERPRETERS.fullmatch(_name(argv[0])):
        return ""
    code = _PERL_CODE if _name(argv[0]) == "perl" else _CODE
    start = next((place for place, word in enumerate(argv) if code.fullmatch(word)), None)
    if start is not None:
        return " ".join(argv[start:])
    plain = (word for before, word in pairwise(argv) if word in _FROM_INPUT or before not in _VALUED)
    first = next((word for word in plain if word in _FROM_INPUT or word[:1] not in ("-", "+")), "-")
    return stdin.decode(errors="replace") if first in _FROM_INPUT else ""


def _of_code(text: str) -> Iterator[str]:
    yield from (name for name in map(_name, _WORDS.findall(text)) if _IN_CODE.fullmatch(name))
    yield from _VARIABLES.findall(text)


def _name(word: str) -> str:
    return posixpath.basename(word)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(kind, value) of each option that sets a client's name, files or key."""
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if word in _OPTIONS:
            yield _OPTIONS[word], words[place + 1] if place + 1 < len(words) else ""
        elif name in _OPTIONS:
            yield _OPTIONS[name], value
        elif word[:2] in _OPTIONS:
            yield _OPTIONS[word[:2]], word[2:]
        elif len(name) > 2 and name.startswith("--") and any(option.startswith(name) for option in _OPTIONS):
            yield "short", name
