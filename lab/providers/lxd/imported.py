"""Images inside LXD: ours, imported from the cache's export and found again by their key."""

from __future__ import annotations

import io
import json
import logging
import tarfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from lab.arch import Arch, host_arch
from lab.errors import LabBroken, SpecError
from lab.images.image import Image
from lab.providers.lxd.server import Server, lxd_errors

_log = logging.getLogger(__name__)

_KEY = "cephlab.key"
_CHUNK = 1 << 20


class Exporter(Protocol):
    """Gives the LXD tarball of an image of ours, made on first use."""

    def __call__(self, image: Image) -> Path: ...


def ensure(server: Server, image: Image, export: Exporter) -> str:
    """Have the image in the LXD; returns the fingerprint that instances are made from."""
    if image.reference is not None:
        raise SpecError("LXD cannot pull an image by its name", str(image.reference), "leave --image out")
    found = _find(server, image.key)
    if found is None:
        _log.info("importing %s for %s into the LXD at %s", image.release, image.arch, server.address.url)
        try:
            _upload(server, export(image))
        except LabBroken as error:
            if "same fingerprint already exists" not in error.detail:  # else another run was quicker
                raise
        found = _find(server, image.key)
    if found is None:
        raise LabBroken("LXD imported an archive that is not the image", f"key {image.key}")
    return found


def _upload(server: Server, archive: Path) -> None:
    doing = f"importing {archive.parent.parent.name[:12]}"
    with _as_of(server.arch, archive) as content:
        headers = {"X-LXD-public": "false", "Content-Type": "application/octet-stream"}
        with lxd_errors(doing):
            response = server.api().images.post(data=content, headers=headers)
    server.wait(doing, response)


@contextmanager
def _as_of(arch: Arch, archive: Path) -> Iterator[Any]:
    """The archive's content, with the architecture of the machine that it goes to."""
    with archive.open("rb") as whole:
        if arch is host_arch():
            yield whole
        else:
            yield _relabelled(arch, archive, whole)


def _relabelled(arch: Arch, archive: Path, whole: IO[bytes]) -> Iterator[bytes]:
    """Another metadata.yaml, which is the first member, and the rest as it is."""
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


def forget(server: Server, image: Image) -> list[str]:
    """Take an image of ours out of the LXD; instances made from it do not need it. In words."""
    said = []
    for found in _ours(server):
        if found["properties"][_KEY] == image.key:
            fingerprint = str(found["fingerprint"])
            with lxd_errors(f"removing image {fingerprint[:12]}"):
                response = server.api().images[fingerprint].delete()
            server.wait(f"removing image {fingerprint[:12]}", response)
            said.append(f"removed {_words(found)} from the LXD at {server.address.url}")
    return said


def others(server: Server, keys: Collection[str]) -> list[str]:
    """Images of ours in the LXD that have none of the keys, in words."""
    return [
        f"the LXD at {server.address.url} holds {_words(found)}, which this cache has not; "
        f"where no other home needs it: lxc image delete {found['fingerprint'][:12]}"
        for found in _ours(server)
        if found["properties"][_KEY] not in keys
    ]


def _words(found: dict[str, Any]) -> str:
    return f"image {found['fingerprint'][:12]} ({found['properties'].get('description', '')})"


def _find(server: Server, key: str) -> str | None:
    fitting = [
        str(found["fingerprint"])
        for found in _ours(server)
        if found["properties"][_KEY] == key and found["architecture"] == server.arch.value
    ]
    return fitting[0] if fitting else None


def _ours(server: Server) -> list[dict[str, Any]]:
    """Images in the LXD that cephlab made, by the property that their metadata gives them."""
    listed = server.get("looking for images", server.api().images, params={"recursion": 1})
    return [found for found in listed if (found.get("properties") or {}).get(_KEY)]
