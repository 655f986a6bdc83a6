"""Debian's own sshd, fetched for an architecture as images are, and put into machines of the lab that have none."""

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from cephlab.lab.base.home import Home
from cephlab.lab.images import build
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.image import Image
from cephlab.lab.images.recipe import Recipe, read_recipes
from cephlab.lab.images.resolve import DebianSource, resolve
from cephlab.lab.images.tools import SystemTools
from cephlab.lab.providers.host import Host

PACKAGE = "openssh-server"
_PROGRAMS = ("usr/bin/ssh-keygen", "usr/sbin/sshd", "usr/lib/openssh")

# Debian's package makes the user when it is configured, which nothing is that is only unpacked.
_USER = "sshd:*:101:65534::/run/sshd:/usr/sbin/nologin"
_SETTLE = 'mkdir -p /run/sshd && { grep -q "^sshd:" /etc/passwd || echo "$1" >>/etc/passwd; }'


def fetched(home: Home, image: Image) -> Path:
    """A tar of sshd with the libraries that an image lacks: from cephlab's folder, or fetched into it first."""
    kept = home.path / "tools" / f"{PACKAGE}-{image.key[:16]}.tar"
    if kept.exists():
        return kept
    suite = read_recipes().find(image.release, image.arch).suite
    recipe = Recipe("sshd", suite, image.arch, (), (PACKAGE,), ("sshd",))
    tools, source = SystemTools(), DebianSource.from_environment()
    source.require_keyring()
    kept.parent.mkdir(parents=True, exist_ok=True)
    with Cache(home).scratch(f"{PACKAGE}-{image.key[:16]}") as scratch:
        if not kept.exists():
            resolve(tools, recipe, source, scratch)
            build.unpack(tools, recipe, source, scratch, scratch / "root")
            _pack(scratch / "root", image, scratch / "tar")
            (scratch / "tar").replace(kept)
    return kept


def _pack(root: Path, image: Image, target: Path) -> None:
    with tarfile.open(target, "w") as archive:
        for path in _wanted(root, image):
            name = str(path.relative_to(root))
            if not (image.root / name).exists():
                archive.add(path, name, recursive=True, filter=_of_root)


def _wanted(root: Path, image: Image) -> Iterator[Path]:
    yield from (root / name for name in _PROGRAMS)
    yield from sorted((root / "usr/lib" / image.arch.triplet).glob("lib*.so*"))


def _of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def install(host: Host, archive: Path) -> None:
    """Put sshd into a machine whose root is its own."""
    there = host.directory / "sshd.tar"
    host.push(archive, there)
    host.run(("tar", "--extract", "--no-same-owner", "--directory=/", f"--file={there}"))
    host.remove(there)
    host.run(("bash", "-c", _SETTLE, "bash", _USER))


def host_key(host: Host) -> tuple[PurePosixPath, str]:
    """A new host key, made there: (its file, what a known_hosts says of it)."""
    path = host.directory / "sshd" / "host_key"
    host.remove(path.parent)
    host.make_directory(path.parent)
    host.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", str(path)))
    kind, key, *_ = host.read(path.with_name("host_key.pub")).decode().split()
    return path, f"{kind} {key}"
