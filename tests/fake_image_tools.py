"""Stand-ins for what image building calls: mmdebstrap and an interpreter that make tiny trees, and refuse all else."""

import hashlib
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cephlab.lab.base.errors import CommandFailed, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.images.lock import PINS
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.resolve import DebianSource
from cephlab.lab.images.store import ImageStore
from cephlab.lab.spec.arch import Arch, host_arch, parse_arch

FOREIGN = next(arch for arch in Arch if arch is not host_arch())
VERSIONS = {"ceph-osd": "18.2.7+ds-1", "bash": "5.2.37-2+b10", "libattr1": "1:2.5.2-3"}


@dataclass
class FakeTools:
    """Understands the two calls of mmdebstrap and the call of compileall that a build makes.

    versions: what the archive has; older: what it has besides, which apt takes where it is told to. unpacking: called
    with the root once a tree is half there.
    """

    versions: dict[str, str] = field(default_factory=lambda: dict(VERSIONS))
    older: dict[str, str] = field(default_factory=dict)
    unpacking: Callable[[Path], None] = lambda _root: None
    missing: frozenset[str] = frozenset()
    refusal: str = ""
    lacking_programs: frozenset[str] = frozenset()
    elf_machine: int | None = None
    compiles: bool = True
    calls: list[tuple[str, str]] = field(default_factory=list)
    hooks: list[list[str]] = field(default_factory=list)
    argvs: list[Sequence[str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def locate(self, program: str) -> str | None:
        assert program == "mmdebstrap", program
        return None if program in self.missing else f"/fake/{program}"

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> Result:
        assert timeout_s >= 600
        assert env is not None
        assert Path(env["CEPHLAB_BUILD"]).is_dir()
        if argv[0] == "/fake/mmdebstrap":
            assert env["TMPDIR"] == env["CEPHLAB_BUILD"], "what it leaves behind must go with the build"
            return self._mmdebstrap(argv, Path(env["CEPHLAB_BUILD"]))
        assert "compileall" in argv, f"unexpected command {argv}"
        assert not check
        return self._compileall(argv, env)

    def count(self, kind: str) -> int:
        return len([call for call in self.calls if call[0] == kind])

    def _mmdebstrap(self, argv: Sequence[str], scratch: Path) -> Result:
        assert "--variant=extract" in argv
        assert not [option for option in argv if "allow" in option or "trusted" in option]
        arch = parse_arch(_option(argv, "--arch"))
        hooks = [option.removeprefix("--setup-hook=") for option in argv if option.startswith("--setup-hook=")]
        self.hooks.append(hooks)
        self.argvs.append(argv)
        special = shlex.split(hooks[-1])
        if self.refusal:
            raise CommandFailed(argv, 25, "", self.refusal, "this machine")
        if special[0] == "copy-out":
            assert special[1:] == ["/plan", "/var/lib/apt/lists", str(scratch)]
            return self._resolve(argv, arch, scratch)
        assert special == ["copy-in", str(scratch / "lists"), "/var/lib/apt"]
        assert "--skip=update" in argv
        assert (scratch / "lists").is_dir(), "the lists that were resolved must be the ones that are unpacked"
        return self._unpack(argv, arch)

    def _resolve(self, argv: Sequence[str], arch: Arch, scratch: Path) -> Result:
        self._note("resolve", arch)
        (scratch / "lists").mkdir()
        pins = (scratch / "pins").read_text() if self._pinned(scratch) else ""
        told = {name for name, version in self.older.items() if f"Package: {name}\nPin: version {version}\n" in pins}
        lines = [
            f"'mirror:pool/{name}.deb' {name}_{version.replace(':', '%3a')}_{arch.debian}.deb 1000"
            f" SHA256:{sum_of(version)}"
            for name, version in (self.versions | {name: self.older[name] for name in told}).items()
        ]
        (scratch / "plan").write_text("\n".join(lines) + "\n")
        return Result(tuple(argv), 0, b"", b"")

    def _unpack(self, argv: Sequence[str], arch: Arch) -> Result:
        self._note("unpack", arch)
        root = Path(next(word for word in argv if word.endswith("/root")))
        make_tree(root, arch, lacking=self.lacking_programs, elf_machine=self.elf_machine)
        if self._pinned(root.parent.parent):
            (root / PINS).parent.mkdir(parents=True)
            (root / PINS).touch()
        self.unpacking(root)
        return Result(tuple(argv), 0, b"", b"")

    def _compileall(self, argv: Sequence[str], env: Mapping[str, str]) -> Result:
        native = Path(env["PYTHONHOME"]).parent
        assert argv[0] == str(native) + host_arch().loader
        assert Path(argv[0]).read_bytes()[18] == host_arch().elf_machine, "the interpreter must be a native one"
        root = Path(argv[argv.index("-s") + 1])
        self._note(
            "compile", parse_arch("aarch64" if FOREIGN.triplet in str(list(root.glob("usr/lib/*"))) else "x86_64")
        )
        if self.compiles and not {"PYTHONPYCACHEPREFIX": "set by a user", **env}["PYTHONPYCACHEPREFIX"]:
            cache = root / "usr/lib/python3/dist-packages/__pycache__"
            cache.mkdir()
            (cache / "rados.cpython-313.pyc").write_bytes(b"code")
        return Result(tuple(argv), 1, b"", b"*** a test file of a package does not compile")

    def _pinned(self, scratch: Path) -> bool:
        """Whether the last call brought its pins where apt looks for them."""
        return f"upload {scratch / 'pins'} /{PINS}" in self.hooks[-1]

    def _note(self, kind: str, arch: Arch) -> None:
        with self.lock:
            self.calls.append((kind, arch.debian))


@dataclass
class FakePreload:
    """Compiles nothing. lacking: architectures that there is no compiler for. compiling: called while it would."""

    digest: str = "shim-1"
    code: bytes = b"shim"
    lacking: frozenset[Arch] = frozenset()
    compiling: Callable[[], None] = lambda: None

    def source_digest(self) -> str:
        return self.digest

    def build(self, arch: Arch, target: Path) -> None:
        if arch in self.lacking:
            raise Unavailable(f"there is no working C compiler for {arch}", "", f"install gcc-{arch.debian}")
        self.compiling()
        target.write_bytes(self.code)


def sum_of(version: str) -> str:
    """The sum of the one file that there is of a version."""
    return hashlib.sha256(version.encode()).hexdigest()


def make_tree(root: Path, arch: Arch, *, lacking: frozenset[str] = frozenset(), elf_machine: int | None = None) -> None:
    """A tree with just what the build looks at, and the traps that real packages set."""
    programs = read_recipes().find("reef", arch).programs
    files = {f"usr/bin/{name}": b"program" for name in programs if name not in lacking}
    machine = (elf_machine or arch.elf_machine).to_bytes(2, "little")
    files |= {
        arch.loader.lstrip("/"): b"\x7fELF" + bytes(14) + machine,
        "usr/share/base-passwd/passwd.master": b"root:*:0:0:root:/root:/bin/bash\n",
        "usr/share/base-passwd/group.master": b"root:*:0:\n",
        "usr/lib/python3/dist-packages/rados.py": b"",
        "usr/share/doc/bash/copyright": b"GPL",
        "usr/share/doc/bash/examples/long.txt": b"long",
        "usr/share/doc/bash/changelog.gz": b"long",
        "usr/share/man/man1/bash.1.gz": b"manual",
        "etc/hostname": b"name-of-this-machine\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / "usr/share/doc/dash").symlink_to("bash")
    (root / "etc/resolv.conf").symlink_to(root.parent / "of-this-machine")
    (root / "var/run").mkdir(parents=True)


def make_store(
    folder: Path,
    tools: FakeTools | None = None,
    preload: FakePreload | None = None,
    *,
    keyring: bool = True,
    home: Home | None = None,
    mirror: str | None = None,
) -> ImageStore:
    """A store below `folder` that touches nothing outside it."""
    folder.mkdir(parents=True, exist_ok=True)
    ring = folder / "keyring.gpg"
    if keyring:
        ring.write_bytes(b"keys")
    return ImageStore(
        home or Home(folder / "home"),
        tools=tools or FakeTools(),
        preload=preload or FakePreload(),
        source=DebianSource(mirror, keyrings=[ring]),
    )


def _option(argv: Sequence[str], name: str) -> str:
    return next(word.partition("=")[2] for word in argv if word.startswith(f"{name}="))
