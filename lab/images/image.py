"""An image: the root tree of one Ceph release for one architecture, in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cephlab.lab.spec.arch import Arch

KEY_LABEL = "cephlab.key"
"""Label with the key on every copy of an image in a container engine."""


@dataclass(frozen=True)
class Pulled:
    """What a pulled image says about itself; its name proves nothing.

    version: Ceph's, as its programs say it. id: the engine's. digests: what registries call it; none for a loaded one.
    """

    version: str
    id: str
    digests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Image:
    """key: sha256 over recipe and package versions (hex). root: its unpacked tree. packages: name -> version.

    reference: set for a pulled image, which has no root of ours; nothing is at `root` then. pulled: see
    `identified` in lab/cluster/own.py.
    """

    release: str
    arch: Arch
    key: str
    root: Path
    packages: Mapping[str, str] = field(default_factory=dict)
    role_sets: tuple[str, ...] = ("ceph",)
    reference: str | None = None
    pulled: Pulled | None = None

    @property
    def ceph_version(self) -> str:
        """Debian version of ceph-osd, e.g. `18.2.7+ds-1`; of a pulled image its own, empty until it is known."""
        if self.pulled is not None:
            return self.pulled.version
        return self.packages.get("ceph-osd", "")

    @property
    def identity(self) -> str:
        """The key that figures measured with this image are filed under; only equal content has an equal one.

        Of a pulled image the engine's id, in hex; before that is known its key, which is of the reference.
        """
        return self.pulled.id.removeprefix("sha256:") if self.pulled is not None else self.key

    @property
    def oci_name(self) -> str:
        """Name of the exported image inside a container engine, `cephlab/RELEASE-DEBARCH:KEY12`."""
        return self.reference or f"cephlab/{self.release}-{self.arch.debian}:{self.key[:12]}"

    @property
    def aio_shim(self) -> Path:
        """The libaio substitute for emulated BlueStore, built with the image, beside the root."""
        return self.root.parent / "libcephlab-aio.so"

    @property
    def contents(self) -> Path:
        """The record of what each file of the root held when it was built, beside the root."""
        return self.root.parent / "contents.json"


def digest_of(reference: str) -> str | None:
    """`sha256:...` of a reference that ends in it; None for one by a tag, which names whatever its registry likes."""
    _, at, digest = reference.rpartition("@")
    return digest if at else None


def pulled_image(release: str, arch: Arch, reference: str, folder: Path) -> Image:
    """An image that an engine pulls, e.g. `quay.io/ceph/ceph:v19.2`. folder: for what the lab adds to such images."""
    key = hashlib.sha256(f"{reference} {arch}".encode()).hexdigest()
    return Image(release, arch, key, folder / key / "root", reference=reference)
