"""Images inside the engine: ours loaded from the cache's export, a user's pulled when absent."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import docker.errors

from lab.arch import Arch
from lab.errors import LabBroken, Unavailable
from lab.images.image import KEY_LABEL, Image
from lab.providers.container.engine import Engine, engine_errors

_log = logging.getLogger(__name__)

_CONFLICT = 409


class Exporter(Protocol):
    """Gives the docker-archive of an image of ours, made on first use."""

    def __call__(self, image: Image) -> Path: ...


def tag(image: Image) -> str:
    """What an image of ours is called in the engine; the key makes it name one content."""
    return f"cephlab/{image.release}-{image.arch.debian}:{image.key[:12]}"


def ensure(engine: Engine, image: Image, export: Exporter) -> str:
    """Have the image in the engine; returns the id or tag that containers are made from."""
    if image.reference is not None:
        return _pulled(engine, image.reference, image.arch)
    wanted = tag(image)
    if _arch_of(engine, wanted) is None:
        _log.info("loading %s into the engine", wanted)
        with export(image).open("rb") as archive, engine_errors(f"loading {wanted}"):
            engine.client.images.load(archive)
        if _arch_of(engine, wanted) is None:
            raise LabBroken(f"the engine loaded an archive that is not {wanted}", f"key {image.key}")
    return wanted


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
    pairs = [((found.get("Labels") or {}).get(KEY_LABEL), found.get("RepoTags") or ()) for found in listed]
    return [(str(key), str(name)) for key, found in pairs if key for name in found if "cephlab/" in name]


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f"/{wanted}")  # Podman puts a registry's name before it


def _pulled(engine: Engine, reference: str, arch: Arch) -> str:
    if _arch_of(engine, reference) == arch.debian:
        return _id_of(engine, reference)
    _log.info("pulling %s for %s", reference, arch)
    try:
        engine.client.images.pull(reference, platform=f"linux/{arch.debian}")
    except docker.errors.DockerException as error:
        raise Unavailable(
            f"the image {reference} is not in the engine for {arch} and cannot be pulled",
            str(error),
            "check the name and that its registry can be reached, `docker load` it, or leave --image out",
        ) from error
    return _id_of(engine, reference)


def _arch_of(engine: Engine, reference: str) -> str | None:
    """Architecture of an image in the engine, in OCI's spelling; None when it is not there."""
    try:
        with engine_errors(f"looking for {reference}"):
            return str(engine.client.images.get(reference).attrs["Architecture"])
    except LabBroken as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            return None
        raise


def _id_of(engine: Engine, reference: str) -> str:
    # By id, as the tag of a pulled image names one architecture at a time.
    with engine_errors(f"looking at {reference}"):
        return str(engine.client.images.get(reference).attrs["Id"])


def identity(engine: Engine, name: str) -> tuple[str, tuple[str, ...]]:
    """Id of an image in the engine, and the digests by which registries name it."""
    with engine_errors(f"looking at {name}"):
        attrs = engine.client.images.get(name).attrs
    return str(attrs["Id"]), tuple(sorted(attrs.get("RepoDigests") or ()))
