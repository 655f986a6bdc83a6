"""Exports an image in the form that a provider needs: a tar for a container engine, a disk, a tar for LXD."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home, require_space
from cephlab.lab.base.progress import Progress
from cephlab.lab.images.build import tree_bytes
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.image import KEY_LABEL, Image
from cephlab.lab.images.tools import Tools, call
from cephlab.lab.spec.arch import host_arch

Form = Literal["oci", "ext4", "lxd", "directory"]
FORMS: tuple[str, ...] = get_args(Form)

_FREE_ON_DISK = 2 << 30
_ROUND = 1 << 20

# Inodes and journal, measured: a 0.75 GB tree makes a disk that holds 0.81 GB.
_EXT4_OVERHEAD = 1.15

_INODES = re.compile(r"^(Inode count|Free inodes): +(\d+)$", re.MULTILINE)

_FILES = {"oci": "oci.tar", "ext4": "root.ext4", "lxd": "lxd-1.tar"}
# Peak disk use in multiples of the tree size: the layer of the OCI tar is first a separate file.
_PEAK = {"oci": 2.1, "ext4": 1.2, "lxd": 1.1}

_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_NO_DATE = "1970-01-01T00:00:00Z"  # equal images must give equal archives


def export_image(home: Home, cache: Cache, tools: Tools, image: Image, form: str, progress: Progress) -> Path:
    """Make the form if it is missing and return its path, which appears only when complete.

    Raises SpecError for an unknown form, an image that is not in the cache, and too little disk space; Unavailable,
    with the name of the package, if a tool is missing.
    """
    if form not in FORMS:
        raise SpecError(f"unknown image format {form!r}", f"known: {', '.join(FORMS)}", "choose one of these")
    if image.reference is not None or cache.find(image.key) is None:
        raise SpecError(
            f"image {image.reference or image.key[:12]} has no tree to export",
            "pulled images and removed images have none",
            "build the image: cephlab image build",
        )
    if form == "directory":
        return image.root
    folder = cache.directory(image.key) / "exports"
    target = folder / _FILES[form]
    if target.exists():
        return target
    with cache.scratch(f"export-{form}-{image.key[:12]}", progress) as scratch:
        if not target.exists():
            needed = tree_bytes(image.root)
            require_space(home, int(needed * _PEAK[form]), f"exporting {image.release} for {image.arch} as {form}")
            progress(f"{image.release} for {image.arch}: exporting {needed / 1e6:.0f} MB as {form}")
            exported = _MAKERS[form](tools, image, scratch)
            folder.mkdir(exist_ok=True)
            exported.replace(target)
    return target


def _oci(tools: Tools, image: Image, scratch: Path) -> Path:
    layer = scratch / "layer.tar"
    _tar(tools, layer, ["--exclude=./dev/*", *_owners(image.root), "-C", str(image.root), "."], scratch)
    archive = scratch / "oci.tar"
    write_archive(archive, layer, image)
    return archive


def _lxd(tools: Tools, image: Image, scratch: Path) -> Path:
    """One tar with metadata.yaml and rootfs/."""
    metadata = {
        "architecture": host_arch().value,  # LXD refuses to start any other architecture, although binfmt would run it
        "creation_date": 1,  # seconds since the epoch, always the same; LXD treats 0 as missing and refuses it
        "properties": {
            "description": f"Ceph {image.release} for {image.arch}",
            "os": "debian",
            "release": image.release,
            "cephlab.arch": image.arch.value,
            "cephlab.key": image.key,
        },
    }
    # JSON is valid YAML, and needs no further dependency.
    (scratch / "metadata.yaml").write_text(json.dumps(metadata, indent=2) + "\n")
    archive = scratch / "lxd.tar"
    arguments = [
        "--transform=s,^root,rootfs,S",  # S: leave the targets of symbolic links alone
        "--exclude=root/dev/*",
        *_owners(image.root),
        "-C",
        str(scratch),
        "metadata.yaml",
        "-C",
        str(image.root.parent),
        "root",
    ]
    _tar(tools, archive, arguments, scratch)
    return archive


def _ext4(tools: Tools, image: Image, scratch: Path) -> Path:
    """A sparse disk with 2 GiB of free space, labelled `cephlab`; the provider of a guest may enlarge it."""
    disk = scratch / "root.ext4"
    size = int(tree_bytes(image.root) * _EXT4_OVERHEAD) + _FREE_ON_DISK
    size = -(-size // _ROUND) * _ROUND
    with disk.open("wb") as file:
        file.truncate(size)
    write_root(tools, image, disk, scratch, offset=0, size_bytes=size)
    return disk


def write_root(tools: Tools, image: Image, disk: Path, scratch: Path, *, offset: int, size_bytes: int) -> None:
    """Make an ext4 filesystem, labelled `cephlab`, with the tree of the image on a part of a disk."""
    options = ["-q", "-F", "-t", "ext4", "-L", "cephlab", "-d", str(image.root)]
    options += ["-E", f"offset={offset}"] if offset else []
    call(tools, scratch, "mke2fs", *options, str(disk), f"{size_bytes >> 10}k")
    if not _owned_by_root(image.root):
        _give_to_root(tools, f"{disk}?offset={offset}" if offset else str(disk), scratch)


def _give_to_root(tools: Tools, disk: str, scratch: Path) -> None:
    """Make root the owner of every file: mke2fs copies owners, and an ordinary user owns the tree they built."""
    # Not with dumpe2fs: that of e2fsprogs 1.47.2 mistakes a path with an offset for a label, because of its =.
    header = call(tools, scratch, "debugfs", "-R", "show_super_stats -h", disk)
    counts = {name: int(number) for name, number in _INODES.findall(header.stdout)}
    used = counts["Inode count"] - counts["Free inodes"]
    # mke2fs allocates inodes in order, so the used ones come first; the root directory is number 2.
    script = scratch / "owners"
    script.write_text("".join(f"sif <{inode}> uid 0\nsif <{inode}> gid 0\n" for inode in range(2, used + 1)))
    call(tools, scratch, "debugfs", "-w", "-f", str(script), disk)


_MAKERS: dict[str, Callable[[Tools, Image, Path], Path]] = {"oci": _oci, "ext4": _ext4, "lxd": _lxd}


def _tar(tools: Tools, target: Path, arguments: Sequence[str], scratch: Path) -> None:
    options = ["--create", "--file", str(target), "--format=gnu", "--sort=name", "--numeric-owner"]
    call(tools, scratch, "tar", *options, *arguments)
    if not target.exists():
        raise LabBroken(f"tar succeeded but did not write {target.name}")


def _owners(root: Path) -> list[str]:
    """Options that make root the owner: a tree built by an ordinary user belongs to that user."""
    return [] if _owned_by_root(root) else ["--owner=0", "--group=0"]


def _owned_by_root(root: Path) -> bool:
    return root.stat().st_uid == 0


def write_archive(target: Path, layer: Path, image: Image) -> None:
    """Assemble an OCI layout around one uncompressed layer, with a manifest.json for engines that know only Docker."""
    with layer.open("rb") as file:
        layer_digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = _json(_config(image, layer_digest))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(_CONFIG_TYPE, _sha256(config), len(config)),
            "layers": [_descriptor(_LAYER_TYPE, layer_digest, layer.stat().st_size)],
        }
    )
    docker_manifest = [
        {
            "Config": _blob(_sha256(config)),
            "RepoTags": [image.oci_name],
            "Layers": [_blob(layer_digest)],
        }
    ]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json(_index(image, manifest)))
        _add(archive, "manifest.json", _json(docker_manifest))
        _add(archive, _blob(_sha256(config)), config)
        _add(archive, _blob(_sha256(manifest)), manifest)
        entry = tarfile.TarInfo(_blob(layer_digest))
        entry.size = layer.stat().st_size
        with layer.open("rb") as file:
            archive.addfile(entry, file)


def _config(image: Image, layer_digest: str) -> dict[str, Any]:
    return {
        "created": _NO_DATE,
        "architecture": image.arch.debian,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["/usr/sbin/init"],
            "Labels": {KEY_LABEL: image.key, "cephlab.release": image.release},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": _NO_DATE, "created_by": "cephlab"}],
    }


def _index(image: Image, manifest: bytes) -> dict[str, Any]:
    entry = _descriptor(_MANIFEST_TYPE, _sha256(manifest), len(manifest)) | {
        "platform": {"architecture": image.arch.debian, "os": "linux"},
        "annotations": {
            "io.containerd.image.name": f"docker.io/{image.oci_name}",
            "org.opencontainers.image.ref.name": image.key[:12],
        },
    }
    return {"schemaVersion": 2, "mediaType": _INDEX_TYPE, "manifests": [entry]}


def _descriptor(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
