"""Cephlab images in LXD: imported from the cache's export, and found again by their key."""

from __future__ import annotations

import io
import json
import logging
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.images.image import Image
from cephlab.lab.providers.engine.provider import Export
from cephlab.lab.providers.lxd.server import Server, lxd_errors
from cephlab.lab.spec.arch import Arch, host_arch

if TYPE_CHECKING:
    from cephlab.lab.providers.lxd.machineimage import MachineImage

_log = logging.getLogger(__name__)

_KEY = "cephlab.key"
_STAMP = "cephlab.machine"
CONTAINER, MACHINE = "container", "virtual-machine"
"""Types of images, as LXD calls them."""
_CHUNK = 1 << 20


def refuse_reference(image: Image) -> None:
    """SpecError for an image that would have to be pulled."""
    if image.reference is not None:
        raise SpecError("LXD cannot pull an image by its name", str(image.reference), "leave --image out")


def ensure(server: Server, image: Image, export: Export) -> str:
    """Import the image unless LXD has it; returns the fingerprint that containers are made from."""
    refuse_reference(image)

    def upload() -> None:
        archive = export(image)
        with archive.open("rb") as whole:
            content = whole if server.arch is host_arch() else _relabelled(server.arch, archive, whole)
            _post(server, archive.parent.parent.name, content, "application/octet-stream")

    return _ensure(server, image, {_KEY: image.key}, CONTAINER, upload)


def ensure_machine(server: Server, machine: MachineImage) -> str:
    """Import the disk unless LXD has it; returns the fingerprint that virtual machines are made from."""
    wanted = {_KEY: machine.image.key, _STAMP: machine.stamp}

    def upload() -> None:
        boundary = f"cephlab-{machine.stamp}"
        content = _parts(boundary, {"metadata": _metadata(machine.image, wanted), "rootfs.img": machine.disk})
        _post(server, machine.image.key, content, f"multipart/form-data; boundary={boundary}")

    return _ensure(server, machine.image, wanted, MACHINE, upload)


def _ensure(server: Server, image: Image, wanted: Mapping[str, str], kind: str, upload: Callable[[], None]) -> str:
    fingerprint = _find(server, wanted, kind)
    if fingerprint is None:
        _log.info("importing %s for %s into the LXD at %s", image.release, image.arch, server.address.url)
        try:
            upload()
        except LabBroken as error:
            if "same fingerprint already exists" not in error.detail:  # then another run was faster
                raise
        fingerprint = _find(server, wanted, kind)
    if fingerprint is None:
        raise LabBroken("LXD imported an archive that is not the image", f"key {image.key}")
    return fingerprint


def _post(server: Server, key: str, content: Any, content_type: str) -> None:
    doing = f"importing {key[:12]}"
    with lxd_errors(doing):
        headers = {"X-LXD-public": "false", "Content-Type": content_type}
        server.wait(doing, server.api().images.post(data=content, headers=headers))


def _metadata(image: Image, properties: Mapping[str, str]) -> bytes:
    """The tar that LXD expects together with a disk."""
    known = {"description": f"Ceph {image.release} for {image.arch}, a disk", "os": "debian", "release": image.release}
    text = json.dumps({"architecture": image.arch.value, "creation_date": 1, "properties": {**known, **properties}})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        entry = tarfile.TarInfo("metadata.yaml")
        entry.size = len(text.encode())
        archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def _parts(boundary: str, parts: Mapping[str, bytes | Path]) -> Iterator[bytes]:
    """The body of a form, piece by piece, so that the disk is not read into memory."""
    for name, content in parts.items():
        yield (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        if isinstance(content, bytes):
            yield content
        else:
            with content.open("rb") as file:
                yield from iter(lambda: file.read(_CHUNK), b"")
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


def _relabelled(arch: Arch, archive: Path, whole: IO[bytes]) -> Iterator[bytes]:
    """The archive, labelled with another architecture in metadata.yaml, its first member."""
    with tarfile.open(archive) as opened:
        first, second = opened.next(), opened.next()
        content = opened.extractfile(first) if first is not None and first.name == "metadata.yaml" else None
        if first is None or second is None or content is None:
            raise LabBroken(f"{archive} does not begin with metadata.yaml")
        metadata = json.load(content)
        begin = second.offset
    metadata["architecture"] = arch.value
    text = json.dumps(metadata).encode()
    first.size = len(text)
    yield first.tobuf() + text + b"\0" * (-len(text) % tarfile.BLOCKSIZE)
    whole.seek(begin, io.SEEK_SET)
    while chunk := whole.read(_CHUNK):
        yield chunk


def forget(server: Server, image: Image, kind: str) -> list[str]:
    """Remove a cephlab image from LXD; returns what was removed, in words. Instances made from it do not need it."""
    outcomes = []
    for copy in _ours(server, kind):
        if copy["properties"][_KEY] == image.key:
            fingerprint = str(copy["fingerprint"])
            doing = f"removing image {fingerprint[:12]}"
            with lxd_errors(doing):
                server.wait(doing, server.api().images[fingerprint].delete())
            outcomes.append(f"removed {_words(copy)} from the LXD at {server.address.url}")
    return outcomes


def others(server: Server, keys: Collection[str], kind: str) -> list[str]:
    """Cephlab images in LXD that have none of the keys, in words."""
    return [
        f"the LXD at {server.address.url} holds {_words(copy)}, which is not in this cache; "
        f"if no other home needs it: lxc image delete {copy['fingerprint'][:12]}"
        for copy in _ours(server, kind)
        if copy["properties"][_KEY] not in keys
    ]


def _words(copy: dict[str, Any]) -> str:
    return f"image {copy['fingerprint'][:12]} ({copy['properties'].get('description', '')})"


def _find(server: Server, wanted: Mapping[str, str], kind: str) -> str | None:
    for copy in _ours(server, kind):
        if wanted.items() <= copy["properties"].items() and copy["architecture"] == server.arch.value:
            return str(copy["fingerprint"])
    return None


def _ours(server: Server, kind: str) -> list[dict[str, Any]]:
    """Images of a kind in LXD that cephlab made, found by a property from their metadata."""
    listed = server.get("looking for images", server.api().images, params={"recursion": 1})
    return [copy for copy in listed if (copy.get("properties") or {}).get(_KEY) and copy["type"] == kind]
