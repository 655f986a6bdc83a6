"""A host with nothing but `ceph-dencoder` and `tar`: the former with types of its own, and flaws on demand."""

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

from cephlab.lab.base.errors import CommandFailed
from cephlab.lab.base.process import Result
from cephlab.lab.spec.arch import Arch


@dataclass
class DencoderHost:
    """types: name -> how many instances. crashes: instances that end the process. misreads: types decoded wrongly."""

    arch: Arch
    base: Path
    types: Mapping[str, int]
    crashes: frozenset[tuple[str, int]] = frozenset()
    misreads: frozenset[str] = frozenset()
    started: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.arch.value

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath(self.base)

    @property
    def root(self) -> PurePosixPath:
        return PurePosixPath("/")

    def up(self) -> bool:
        return True

    def push(self, source: bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_bytes(source)

    def read(self, source: PurePosixPath) -> bytes:
        return Path(source).read_bytes()

    def make_directory(self, path: PurePosixPath) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: PurePosixPath) -> None:
        for entry in sorted(Path(path).rglob("*"), reverse=True):
            entry.rmdir() if entry.is_dir() else entry.unlink()

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 60.0, stdin: bytes = b""
    ) -> Result:
        if argv[0] == "tar":
            return self._tar(*argv[1:5])
        if argv[0] != "ceph-dencoder" or set(env or {}) != {"CEPH_LIB"}:
            raise AssertionError(f"unexpected: {argv[:4]}, {env}")
        self.started.append(len(argv))
        return Result(tuple(argv), 0, Session(self).follow(list(argv[1:])).encode(), b"")

    def _tar(self, chdir: str, directory: str, mode: str, archive: str) -> Result:
        assert chdir == "-C"
        if mode == "-cf":
            with tarfile.open(archive, "w") as tar:
                tar.add(Path(directory) / "files", "files")
        else:
            assert mode == "-xf"
            with tarfile.open(archive) as tar:
                tar.extractall(directory, filter="data")
        return Result(("tar",), 0, b"", b"")


class Session:
    """One run of the program: the object in memory, its encoding, and what was printed."""

    def __init__(self, host: DencoderHost) -> None:
        self.host = host
        self.kind = self.printed = self.object = ""
        self.encoded = b""

    def follow(self, words: list[str]) -> str:
        takes_one = {"type", "select_test", "export", "import"}
        while words:
            command = words.pop(0)
            getattr(self, f"do_{command}")(*([words.pop(0)] if command in takes_one else []))
        return self.printed

    def do_list_types(self) -> None:
        self.printed += "".join(f"{name}\n" for name in self.host.types)

    def do_type(self, kind: str) -> None:
        self.kind = kind

    def do_count_tests(self) -> None:
        self.printed += f"{self.host.types[self.kind]}\n"

    def do_select_test(self, number: str) -> None:
        self.object = f"{self.kind} {number}"
        if (self.kind, int(number)) in self.host.crashes:
            self.refuse(f"{self.object} cannot be made")

    def do_encode(self) -> None:
        self.encoded = self.object.encode()

    def do_export(self, path: str) -> None:
        Path(path).write_bytes(self.encoded)

    def do_import(self, path: str) -> None:
        if not Path(path).exists():
            self.refuse("No such file or directory")
        self.encoded = Path(path).read_bytes()

    def do_decode(self) -> None:
        self.object = self.encoded.decode() + ("?" if self.kind in self.host.misreads else "")

    def do_dump_json(self) -> None:
        self.printed += f'{{\n    "is": "{self.object}"\n}}\n'

    def refuse(self, why: str) -> None:
        raise CommandFailed(["ceph-dencoder"], 1, self.printed, f"error: {why}", self.host.name)


def cluster_of(hosts: Mapping[Arch, DencoderHost]) -> SimpleNamespace:
    """What a scenario needs of a cluster to use these hosts."""
    return SimpleNamespace(
        name="fake", spec=SimpleNamespace(archs=tuple(hosts)), host_with=hosts.__getitem__, patience=1.0
    )
