"""Unpacks a recipe's packages into a root tree and makes it usable as a container root, a chroot and a prefix."""

import os
import shlex
import shutil
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.images.lock import PINS
from cephlab.lab.images.recipe import Recipe
from cephlab.lab.images.resolve import DebianSource, include_options, pin_hooks, run_mmdebstrap
from cephlab.lab.images.tools import BUILD_VARIABLE, Tools
from cephlab.lab.spec.arch import Arch

_BUILD_TIMEOUT_S = 3600.0
_COMPILE_TIMEOUT_S = 900.0

# Packages of bookworm still ship both /bin and /usr/bin; with these links made first, all files end up in /usr.
_MERGED_USR = (
    'set -e; for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; test -e "$1/$d" || ln -s "usr/$d" "$1/$d"; done'
)

_CEPH_ID = 64045  # the uid and gid that Debian reserves for Ceph
_DIRECTORIES = {
    "dev": 0o755,
    "proc": 0o755,
    "root": 0o700,
    "run": 0o755,
    "run/lock": 0o1777,
    "sys": 0o755,
    "tmp": 0o1777,
    "var/lib/ceph": 0o755,
    "var/log/ceph": 0o755,
}
# Relative, so that they also resolve correctly from outside the root.
_LINKS = {"var/run": "../run", "var/lock": "../run/lock"}
_FILES = {
    "etc/hostname": "cephlab\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/machine-id": "",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n",
    "etc/resolv.conf": "",
}
# A minimal init for a system container: it reaps orphans and ends when told to.
_INIT = """#!/bin/sh
trap 'exit 0' TERM INT PWR
while :; do
  sleep 3600 &
  wait $!
done
"""
_BYTE_CODE = ("usr/lib/python3", "usr/lib/python3.*", "usr/share/ceph/mgr")


def unpack(tools: Tools, recipe: Recipe, source: DebianSource, scratch: Path, root: Path) -> None:
    """Fill `root` with packages according to `scratch/lists`, so that their versions are the resolved ones."""
    lists = f"copy-in {shlex.quote(str(scratch / 'lists'))} /var/lib/apt"
    run_mmdebstrap(
        tools,
        recipe,
        source,
        [
            "--skip=update",
            f"--setup-hook={_MERGED_USR}",
            *(f"--setup-hook={hook}" for hook in pin_hooks(scratch)),
            f"--setup-hook={lists}",
            *include_options(recipe),
            recipe.suite,
            str(root),
        ],
        scratch=scratch,
        timeout_s=_BUILD_TIMEOUT_S,
    )
    (root / PINS).unlink(missing_ok=True)


def check_root(root: Path, recipe: Recipe) -> None:
    """LabBroken unless the programs of the recipe exist and have its architecture."""
    missing = [name for name in recipe.programs if _program(root, name) is None]
    if missing:
        raise LabBroken(
            f"the image of {recipe.title} lacks programs",
            ", ".join(missing),
            "add the packages that contain them to the recipe file",
        )
    loader = root / recipe.arch.loader.lstrip("/")
    _lead_inside(root, loader)
    try:
        header = loader.read_bytes()[:20]
    except OSError as error:
        raise LabBroken(f"the image of {recipe.title} has no dynamic loader", str(error)) from error
    machine = int.from_bytes(header[18:20], "little")
    if header[:4] != b"\x7fELF" or machine != recipe.arch.elf_machine:
        raise LabBroken(
            f"the image of {recipe.title} contains programs of another architecture",
            f"{loader}: ELF machine {machine}, wanted {recipe.arch.elf_machine}",
        )


def complete(root: Path) -> None:
    """Add what maintainer scripts would have created, and remove what nothing here needs."""
    for name, mode in _DIRECTORIES.items():
        path = root / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
    for name, target in _LINKS.items():
        _link(root / name, target)
    for name, text in _FILES.items():
        _write(root / name, text)
    ceph = f"ceph:*:{_CEPH_ID}:"
    _write(root / "etc/passwd", _master(root, "passwd") + f"{ceph}{_CEPH_ID}:Ceph:/var/lib/ceph:/usr/sbin/nologin\n")
    _write(root / "etc/group", _master(root, "group") + f"{ceph}\n")
    init = root / "usr/sbin/init"
    if not init.is_symlink() and not init.exists():
        _write(init, _INIT, mode=0o755)
    _bundle_certificates(root)
    strip_documentation(root)


def _bundle_certificates(root: Path) -> None:
    """Make the bundle of update-ca-certificates, needed by Python's requests, which the mgr's telemetry imports."""
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = "".join(f"{path.read_text().rstrip()}\n" for path in certificates)
    _write(root / "etc/ssl/certs/ca-certificates.crt", bundle)


def strip_documentation(root: Path) -> None:
    """Remove manuals, translations and documentation; licences (`copyright`) stay."""
    for name in ("man", "info", "locale"):
        folder = root / "usr/share" / name
        if folder.is_dir():
            shutil.rmtree(folder)
    for entry in list((root / "usr/share/doc").glob("*/*")):
        if entry.name == "copyright" or entry.parent.is_symlink():
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def compile_python(tools: Tools, root: Path, native_root: Path, native: Arch, scratch: Path) -> None:
    """Write Python's byte code into `root` with the interpreter of a native image of the same release.

    Byte code is the same on every architecture, and compiling it at each start is very slow under emulation.
    """
    folders = sorted(path for pattern in _BYTE_CODE for path in root.glob(pattern) if path.is_dir())
    interpreter = [
        str(native_root / native.loader.lstrip("/")),
        "--library-path",
        str(native_root / "usr/lib" / native.triplet),
        str(native_root / "usr/bin/python3"),
    ]
    env = {
        "PYTHONHOME": str(native_root / "usr"),
        "PYTHONPATH": str(native_root / "usr/lib/python3/dist-packages"),
        "PYTHONWARNINGS": "ignore",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPYCACHEPREFIX": "",  # otherwise the byte code may go to a folder of the user, not into the image
        BUILD_VARIABLE: str(scratch),
    }
    arguments = ["-m", "compileall", "-q", "-s", str(root), "-p", "/", *map(str, folders)]
    result = tools.run([*interpreter, *arguments], timeout_s=_COMPILE_TIMEOUT_S, env=env, check=False)
    # A single file that does not compile (packages ship some as tests) gives status 1, so judge by the outcome.
    if next(root.glob("usr/lib/python3/dist-packages/__pycache__/*.pyc"), None) is None:
        raise LabBroken(
            "Python's byte code could not be compiled",
            f"status {result.code}\n{result.stdout[-1000:]}{result.stderr[-1000:]}",
        )


def tree_bytes(root: Path) -> int:
    """Disk space used by a tree, with hard links counted once."""
    blocks = {status.st_ino: status.st_blocks for status in map(Path.lstat, root.rglob("*"))}
    return sum(blocks.values()) * 512


def _program(root: Path, name: str) -> Path | None:
    candidates = (root / folder / name for folder in ("usr/bin", "usr/sbin"))
    # A link may point to an absolute path, which exists only from inside the root.
    return next((path for path in candidates if path.is_symlink() or path.is_file()), None)


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    # The tree may have a link here that leads out of it, and mmdebstrap copied this machine's own host names.
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _lead_inside(root: Path, path: Path) -> None:
    """Make an absolute link relative (bullseye's loader): from outside it would lead to files of this machine."""
    if path.is_symlink() and (target := path.readlink()).is_absolute():
        path.unlink()
        path.symlink_to(os.path.relpath(root / target.relative_to("/"), path.parent))


def _link(path: Path, target: str) -> None:
    if path.is_dir() and not path.is_symlink():
        if any(path.iterdir()):
            return
        path.rmdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _master(root: Path, name: str) -> str:
    master = root / "usr/share/base-passwd" / f"{name}.master"
    try:
        return master.read_text()
    except FileNotFoundError as error:
        raise LabBroken("Debian's list of users is missing in the image", str(error)) from error
