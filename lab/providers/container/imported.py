"""Images in the engine: cephlab's own come from the cache's export; a user's image is pulled if it is missing."""

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import docker.errors
from docker.utils import parse_repository_tag

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import LABEL
from cephlab.lab.images.image import KEY_LABEL, Image, digest_of
from cephlab.lab.providers.container.engine import ENGINE_ERRORS, Engine, engine_errors
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.engine.places import HOME_LABEL
from cephlab.lab.providers.engine.provider import Export
from cephlab.lab.spec.arch import Arch

_log = logging.getLogger(__name__)

_CONFLICT = 409
_DIGEST_LINE = re.compile(r"Digest: (sha256:[0-9a-f]{64})")


@dataclass(frozen=True)
class EngineImage:
    """An image in the engine. name: id or tag that containers are made from; digests: its names in registries."""

    name: str
    digests: tuple[str, ...] = ()

    def has_digest(self, digest: str | None) -> bool:
        """Whether a registry gives it this digest. None fits every image."""
        return digest is None or digest in map(digest_of, self.digests)


def from_state(state: Mapping[str, Any]) -> dict[Arch, EngineImage]:
    """The images of a lab with that state. Clusters that an older cephlab left running have no digests."""
    digests = state.get("digests", {})
    return {Arch(arch): EngineImage(str(name), tuple(digests.get(arch, ()))) for arch, name in state["images"].items()}


def ensure(engine: Engine, image: Image, export: Export, progress: Progress = quiet) -> EngineImage:
    """Load or pull the image unless the engine has it. A pulled image must have the digest that its name asks for."""
    if image.reference is not None:
        return _pulled(engine, image.reference, image.arch, progress)
    wanted = image.oci_name
    if _arch_of(engine, wanted) is None:
        _log.info("loading %s into the engine", wanted)
        with export(image).open("rb") as archive, engine_errors(f"loading {wanted}"):
            engine.client.images.load(archive)
        if _arch_of(engine, wanted) is None:
            raise LabBroken(f"the engine loaded an archive that is not {wanted}", f"key {image.key}")
    return EngineImage(wanted)


def forget(engine: Engine, image: Image) -> list[str]:
    """Remove the unused copies of a cephlab image from the engine; returns in words what happened to each copy.

    Containers are those of other homes: the image of a cluster of this home is not removed. An engine refuses to remove
    an image that they use, but not the name of one that has several, and a cluster makes nodes by that name.
    """
    outcomes = []
    for key, name in _ours(engine):
        if key == image.key and _is_named(name, image.oci_name):
            if users := _users(engine, name):
                outcomes.append(f"{name} stays in the engine: {', '.join(users)} uses it")
                continue
            try:
                with engine_errors(f"removing {name}"):
                    engine.client.api.remove_image(name)
            except LabBroken as error:
                if getattr(error.__cause__, "status_code", None) != _CONFLICT:
                    raise
                outcomes.append(f"{name} stays in the engine: a container of another run uses it")
            else:
                outcomes.append(f"removed {name} from the engine")
    return outcomes


def _users(engine: Engine, name: str) -> list[str]:
    """Whose containers are made from an image: clusters and their homes, in words."""
    with engine_errors(f"looking for containers of {name}"):
        listed = engine.client.api.containers(all=True, filters={"ancestor": name})
    marks = [container.get("Labels") or {} for container in listed]
    return sorted({f"{mark.get(LABEL, 'a container')} of {mark.get(HOME_LABEL, 'no home')}" for mark in marks})


def others(engine: Engine, keys: Collection[str]) -> list[str]:
    """Cephlab images in the engine that have none of the keys, in words."""
    return [
        f"the engine holds {name}, which is not in this cache; if no other home needs it: {engine.kind} rmi {name}"
        for key, name in _ours(engine)
        if key not in keys
    ]


def _ours(engine: Engine) -> list[tuple[str, str]]:
    """(key, name) of the images in the engine that cephlab made, found by label and name."""
    with engine_errors("looking for images"):
        listed = engine.client.api.images(filters={"label": [KEY_LABEL]})
    named = [((image.get("Labels") or {}).get(KEY_LABEL), image.get("RepoTags") or ()) for image in listed]
    return [(str(key), str(name)) for key, names in named if key for name in names if "cephlab/" in name]


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f"/{wanted}")  # Podman puts a registry's name before it


def _pulled(engine: Engine, reference: str, arch: Arch, progress: Progress) -> EngineImage:
    wanted = digest_of(reference)
    image = _look_up(engine, reference) if _arch_of(engine, reference) == arch.debian else None
    if image is None or not image.has_digest(wanted):
        progress(f"pulling {reference} for {arch}")
        digests = _pull(engine, reference, arch)
        image = _look_up(engine, reference)
        image = EngineImage(image.name, tuple(sorted({*image.digests, *digests})))
    if not image.has_digest(wanted):
        raise LabBroken(
            f"the engine has another image as {reference}",
            f"wanted {wanted}, got {', '.join(image.digests) or 'no digest'} (image {image.name})",
            f"remove it ({engine.kind} rmi {image.name}) and try again; if it comes back, do not trust its registry",
        )
    if wanted is None:
        digest = ", ".join(image.digests) or f"{image.name}, without a digest from a registry"
        progress(f"{reference} for {arch} is {digest}")
    return image


def _look_up(engine: Engine, reference: str) -> EngineImage:
    # By id, because the name of a pulled image refers to one architecture at a time.
    with engine_errors(f"inspecting {reference}"):
        attrs = engine.client.images.get(reference).attrs
    return EngineImage(str(attrs["Id"]), tuple(sorted(attrs.get("RepoDigests") or ())))


def _pull(engine: Engine, reference: str, arch: Arch) -> list[str]:
    """Let the engine pull it. Returns the digest in the registry, if the engine reports it."""
    repository, tag = parse_repository_tag(reference)
    if digest_of(reference) is not None:
        _make_room(engine, reference)
    digest = None
    try:
        lines = engine.client.api.pull(
            repository, tag=tag or "latest", platform=f"linux/{arch.debian}", stream=True, decode=True
        )
        for line in lines:
            if "error" in line:
                raise docker.errors.DockerException(str(line["error"]))
            digest = _DIGEST_LINE.fullmatch(str(line.get("status", ""))) or digest
    except ENGINE_ERRORS as error:
        raise Unavailable(
            f"the image {reference} is not in the engine for {arch} and cannot be pulled",
            str(error),
            "check the name and that the engine reaches its registry, `docker load` it, or leave --image out",
        ) from error
    pulled_arch = _arch_of(engine, reference)
    if pulled_arch != arch.debian:
        raise LabBroken(
            f"{reference} is not for {arch}",
            f"asked for {arch.debian}, got {pulled_arch}",
            "name an image, or a list of images, that has every architecture of the cluster",
        )
    return [f"{repository}@{digest[1]}"] if digest else []


def _make_room(engine: Engine, reference: str) -> None:
    """Free the digest: its image, of another architecture, keeps a tag. In Docker only one image can have a digest."""
    other = _arch_of(engine, reference)
    if other is not None and engine.kind == "docker":
        with engine_errors(f"making room for {reference}"):
            engine.client.api.tag(reference, f"cephlab/pulled-{other}", str(digest_of(reference))[7:19], force=True)
            engine.client.api.remove_image(reference)


def _arch_of(engine: Engine, reference: str) -> str | None:
    """Architecture of an image in the engine, in OCI's spelling; None if the engine does not have it."""
    try:
        with engine_errors(f"looking for {reference}"):
            return str(engine.client.images.get(reference).attrs["Architecture"])
    except NotThere:
        return None
