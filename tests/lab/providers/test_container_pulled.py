"""A pulled image is the one that its digest names, or none; one by a tag is told by the digest that it has today."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import docker.errors
import pytest
import requests
import urllib3.exceptions

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.images.image import Image, pulled_image
from cephlab.lab.providers.container import imported
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.lab import ContainerLab
from cephlab.lab.spec.arch import Arch

ARM = Arch.AARCH64
DIGEST, OTHER = (f"sha256:{letter * 64}" for letter in "de")
TAG, PINNED = "example/ceph:reef", f"example/ceph@{DIGEST}"


@dataclass
class Images:
    """What an engine holds, and what its registry gives when it is asked: attributes by reference.

    said: what the engine says while it pulls. asked: what was asked of it that changes something.
    """

    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    served: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def get(self, name: str) -> SimpleNamespace:
        if name not in self.held:
            raise docker.errors.ImageNotFound("no such image")
        return SimpleNamespace(attrs=self.held[name])

    def pull(self, repository: str, *, tag: str, platform: str, stream: bool, decode: bool) -> Iterator[dict[str, str]]:
        assert stream
        assert decode
        reference = f"{repository}{'@' if tag.startswith('sha256:') else ':'}{tag}"
        self.asked.append(("pull", reference, platform))
        yield {"status": "Pulling from example/ceph"}
        if reference not in self.served:
            yield {"error": "manifest unknown"}
        else:
            self.held[reference] = self.served[reference]
            yield from ({"status": line} for line in self.said)

    def tag(self, reference: str, repository: str, tag: str, *, force: bool) -> None:
        assert force
        self.asked.append(("tag", reference, f"{repository}:{tag}"))

    def remove_image(self, reference: str) -> None:
        self.asked.append(("untag", reference))
        del self.held[reference]


def attributes(*digests: str, arch: str = "arm64") -> dict[str, Any]:
    return {"Id": "sha256:11", "Architecture": arch, "RepoDigests": [f"example/ceph@{digest}" for digest in digests]}


def ensured(images: Images, reference: str) -> tuple[imported.EngineImage, list[str]]:
    """What containers are made from, and what was said."""

    def export(image: Image) -> Path:
        raise AssertionError(f"{image.oci_name} is none of ours")

    client = SimpleNamespace(images=images, api=images, version=lambda: {"Components": [{"Name": "Engine"}]})
    engine = Engine("unix:///fake.sock", {}, cast("docker.DockerClient", client))
    said: list[str] = []
    image = pulled_image("unknown", ARM, reference, Path("/cache"))
    return imported.ensure(engine, image, export, said.append), said


def test_one_by_its_digest_is_taken_when_the_engine_has_just_that() -> None:
    images = Images({PINNED: attributes(OTHER, DIGEST)})
    held, said = ensured(images, PINNED)
    assert (held.name, said, images.asked) == ("sha256:11", [], [])


@pytest.mark.parametrize("digests", [(OTHER,), ()])
def test_one_by_its_digest_is_refused_when_the_engine_has_another(digests: tuple[str, ...]) -> None:
    with pytest.raises(LabBroken, match=f"another image as {PINNED}") as refused:
        ensured(Images(served={PINNED: attributes(*digests)}), PINNED)
    assert f"wanted {DIGEST}, got {'example/ceph@' + OTHER if digests else 'no digest'}" in refused.value.detail
    assert "docker rmi sha256:11" in refused.value.hint


def test_one_that_has_lost_its_digest_is_pulled_again() -> None:
    images = Images({PINNED: attributes()}, {PINNED: attributes(DIGEST)})
    held, said = ensured(images, PINNED)
    assert held.digests == (PINNED,)
    assert said == [f"pulling {PINNED} for aarch64"]


def test_the_digest_goes_from_the_image_of_another_architecture_which_stays() -> None:
    images = Images({PINNED: attributes(DIGEST, arch="amd64")}, {PINNED: attributes(DIGEST)})
    held, _ = ensured(images, PINNED)
    assert held.name == "sha256:11"
    assert images.asked == [
        ("tag", PINNED, "cephlab/pulled-amd64:dddddddddddd"),
        ("untag", PINNED),
        ("pull", PINNED, "linux/arm64"),
    ]


def test_one_by_a_tag_is_told_by_the_digest_it_has_today() -> None:
    """Docker gives the digest to the first of several architectures alone, and says it each time."""
    images = Images({TAG: attributes(DIGEST, arch="amd64")}, {TAG: attributes()}, said=(f"Digest: {DIGEST}",))
    held, said = ensured(images, TAG)
    assert images.asked == [("pull", TAG, "linux/arm64")]
    assert held == imported.EngineImage("sha256:11", (PINNED,))
    assert said == [f"pulling {TAG} for aarch64", f"{TAG} for aarch64 is {PINNED}"]


def test_one_that_was_loaded_is_told_by_its_id() -> None:
    _, said = ensured(Images({TAG: attributes()}), TAG)
    assert said == [f"{TAG} for aarch64 is sha256:11, without a digest from a registry"]


def test_one_for_another_architecture_alone_is_refused() -> None:
    with pytest.raises(LabBroken, match=f"{TAG} is not for aarch64") as refused:
        ensured(Images({TAG: attributes(arch="amd64")}, {TAG: attributes(arch="amd64")}), TAG)
    assert refused.value.detail == "asked for arm64, got amd64"


def test_one_that_no_registry_has_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be pulled") as refused:
        ensured(Images(), PINNED)
    assert refused.value.detail == "manifest unknown"


@pytest.mark.parametrize(
    "lost",
    [requests.exceptions.ReadTimeout("no answer"), urllib3.exceptions.ProtocolError("Connection broken")],
    ids=lambda error: type(error).__name__,
)
def test_an_engine_that_is_lost_while_it_pulls_is_unavailable(lost: Exception) -> None:
    class Lost(Images):
        def pull(self, *_arguments: Any, **_options: Any) -> Iterator[dict[str, str]]:
            yield {"status": "Pulling from example/ceph"}
            raise lost

    with pytest.raises(Unavailable, match="cannot be pulled") as refused:
        ensured(Lost(), TAG)
    assert str(lost) in refused.value.detail


def test_a_lab_that_is_found_again_still_knows_the_digests(tmp_path: Path) -> None:
    held = imported.EngineImage("sha256:11", (PINNED,))
    engine = Engine("unix:///fake.sock", {}, cast("docker.DockerClient", SimpleNamespace()))
    lab = ContainerLab(engine, Runs(Home(tmp_path)).create("container"), "10.0.0.0/24", {ARM: held})
    assert lab.pulled_image(ARM) == ("sha256:11", (PINNED,))
    assert imported.from_state(json.loads(json.dumps(lab.state))) == {ARM: held}
