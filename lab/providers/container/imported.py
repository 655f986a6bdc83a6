"""Images inside the engine: ours loaded from the cache's export, a user's pulled when absent."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import docker.errors
from docker.utils import parse_repository_tag

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.images.image import KEY_LABEL, Image, digest_of
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.engine.images import Exporter
from cephlab.lab.spec.arch import Arch

_log = logging.getLogger(__name__)

_CONFLICT = 409
_DIGEST_LINE = re.compile(r"Digest: (sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class Held:
    """An image in the engine. name: id or tag that containers are made from; digests: what registries call it."""

    name: str
    digests: tuple[str, ...] = ()

    def is_called(self, digest: str | None) -> bool:
        """Whether a registry calls it by this digest; anything is called by none."""
        return digest is None or digest in map(digest_of, self.digests)


def tag(image: Image) -> str:
    """The name of an image of ours in the engine; it holds the key, so it always names the same content."""
    return f"cephlab/{image.release}-{image.arch.debian}:{image.key[:12]}"


def from_state(state: Mapping[str, Any]) -> dict[Arch, Held]:
    """What a lab of that state is made from. Clusters that an older cephlab left up have no digests."""
    digests = state.get("digests", {})
    return {Arch(arch): Held(str(name), tuple(digests.get(arch, ()))) for arch, name in state["images"].items()}


def ensure(engine: Engine, image: Image, export: Exporter, progress: Progress = quiet) -> Held:
    """Have the image in the engine; a pulled one is the one that its digest names, or refused."""
    if image.reference is not None:
        return _pulled(engine, image.reference, image.arch, progress)
    wanted = tag(image)
    if _arch_of(engine, wanted) is None:
        _log.info("loading %s into the engine", wanted)
        with export(image).open("rb") as archive, engine_errors(f"loading {wanted}"):
            engine.client.images.load(archive)
        if _arch_of(engine, wanted) is None:
            raise LabBroken(f"the engine loaded an archive that is not {wanted}", f"key {image.key}")
    return Held(wanted)


def forget(engine: Engine, image: Image) -> list[str]:
    """Take the copies of an image of ours out of the engine; those that a container is made from stay. In words."""
    said = []
    for key, name in _ours(engine):
        if key == image.key and _is_named(name, tag(image)):
            try:
                with engine_errors(f"removing {name}"):
                    engine.client.api.remove_image(name)
            except LabBroken as error:
                if getattr(error.__cause__, "status_code", None) != _CONFLICT:
                    raise
                said.append(f"{name} stays in the engine: a container of another run is made from it")
            else:
                said.append(f"removed {name} from the engine")
    return said


def others(engine: Engine, keys: Collection[str]) -> list[str]:
    """Images of ours in the engine that have none of the keys, in words."""
    return [
        f"the engine holds {name}, which this cache has not; where no other home needs it: {engine.kind} rmi {name}"
        for key, name in _ours(engine)
        if key not in keys
    ]


def _ours(engine: Engine) -> list[tuple[str, str]]:
    """(key, name) of the images in the engine that cephlab made: by their label and by their name."""
    with engine_errors("looking for images"):
        listed = engine.client.api.images(filters={"label": [KEY_LABEL]})
    named = [((image.get("Labels") or {}).get(KEY_LABEL), image.get("RepoTags") or ()) for image in listed]
    return [(str(key), str(name)) for key, names in named if key for name in names if "cephlab/" in name]


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f"/{wanted}")  # Podman puts a registry's name before it


def _pulled(engine: Engine, reference: str, arch: Arch, progress: Progress) -> Held:
    wanted = digest_of(reference)
    found = _held(engine, reference) if _arch_of(engine, reference) == arch.debian else None
    if found is None or not found.is_called(wanted):
        progress(f"pulling {reference} for {arch}")
        told = _pull(engine, reference, arch)
        found = _held(engine, reference)
        found = Held(found.name, tuple(sorted({*found.digests, *told})))
    if not found.is_called(wanted):
        raise LabBroken(
            f"the engine holds something else as {reference}",
            f"wanted {wanted}, got {', '.join(found.digests) or 'no digest'} (image {found.name})",
            f"remove it ({engine.kind} rmi {found.name}) and try again; if it comes back, mistrust its registry",
        )
    if wanted is None:
        called = ", ".join(found.digests) or f"{found.name}, which no registry gave a digest"
        progress(f"{reference} for {arch} is {called}")
    return found


def _held(engine: Engine, reference: str) -> Held:
    # By id, as the name of a pulled image is one architecture's at a time.
    with engine_errors(f"looking at {reference}"):
        attrs = engine.client.images.get(reference).attrs
    return Held(str(attrs["Id"]), tuple(sorted(attrs.get("RepoDigests") or ())))


def _pull(engine: Engine, reference: str, arch: Arch) -> list[str]:
    """Have the engine pull it; returns the digest that the registry called it by, where the engine says so."""
    repository, tag = parse_repository_tag(reference)
    if digest_of(reference) is not None:
        _make_room(engine, reference)
    said = None
    try:
        lines = engine.client.api.pull(
            repository, tag=tag or "latest", platform=f"linux/{arch.debian}", stream=True, decode=True
        )
        for line in lines:
            if "error" in line:
                raise docker.errors.DockerException(str(line["error"]))
            said = _DIGEST_LINE.fullmatch(str(line.get("status", ""))) or said
    except docker.errors.DockerException as error:
        raise Unavailable(
            f"the image {reference} is not in the engine for {arch} and cannot be pulled",
            str(error),
            "check the name and that its registry can be reached, `docker load` it, or leave --image out",
        ) from error
    got = _arch_of(engine, reference)
    if got != arch.debian:
        raise LabBroken(
            f"{reference} is not for {arch}",
            f"asked for {arch.debian}, got {got}",
            "name an image, or a list of images, that has every architecture of the cluster",
        )
    return [f"{repository}@{said[1]}"] if said else []


def _make_room(engine: Engine, reference: str) -> None:
    """Docker never gives a digest to a second image: that of another architecture loses it, and stays under a tag."""
    held = _arch_of(engine, reference)
    if held is not None and engine.kind == "docker":
        with engine_errors(f"making room for {reference}"):
            engine.client.api.tag(reference, f"cephlab/pulled-{held}", str(digest_of(reference))[7:19], force=True)
            engine.client.api.remove_image(reference)


def _arch_of(engine: Engine, reference: str) -> str | None:
    """Architecture of an image in the engine, in OCI's spelling; None when it is not there."""
    try:
        with engine_errors(f"looking for {reference}"):
            return str(engine.client.images.get(reference).attrs["Architecture"])
    except LabBroken as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            return None
        raise
