"""Copies of images in a container engine: ours and unused ones are removed, the rest is named."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.prune import forget_copies, stray_copies
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Provider
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.provider import ContainerProvider
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.layout import build_spec
from tests.fake_provider import FakeProvider
from tests.lab.providers.test_container_removal import OURS, refusal

KEY, OTHER = "a" * 64, "b" * 64
IMAGE = Image("reef", Arch.X86_64, KEY, Path("/cache/root"))
NAME = f"cephlab/reef-amd64:{KEY[:12]}"
OTHER_NAME = f"cephlab/reef-amd64:{OTHER[:12]}"


@dataclass
class Api:
    """An engine with images: ours, another of ours, one of a user's that has our label, and one without a name."""

    prefix: str = ""
    fails: int = 0
    removed: list[str] = field(default_factory=list)
    containers_of_run: list[dict[str, Any]] = field(default_factory=list)

    def images(self, *, filters: dict[str, Any]) -> list[dict[str, Any]]:
        assert filters == {"label": ["cephlab.key"]}
        return [
            {"RepoTags": [self.prefix + NAME, "mine:latest"], "Labels": {"cephlab.key": KEY}},
            {"RepoTags": [self.prefix + OTHER_NAME], "Labels": {"cephlab.key": OTHER}},
            {"RepoTags": ["somebody/based-on-it:1"], "Labels": {"cephlab.key": KEY}},
            {"RepoTags": None, "Labels": {"cephlab.key": KEY}},
            {"RepoTags": ["cephlab/reef-amd64:unlabelled"], "Labels": None},
        ]

    def remove_image(self, name: str) -> None:
        if self.fails:
            raise refusal(self.fails)
        self.removed.append(name)

    def containers(self, **_options: Any) -> list[dict[str, Any]]:
        return self.containers_of_run

    def networks(self, **_options: Any) -> list[dict[str, Any]]:
        return []

    def volumes(self, **_options: Any) -> dict[str, Any]:
        return {"Volumes": []}


@dataclass
class Client:
    """The library's client around the calls."""

    api: Api
    closed: bool = False

    def version(self) -> dict[str, Any]:
        return {"Components": [{"Name": "Engine"}]}

    def close(self) -> None:
        self.closed = True


def provider(client: Client) -> ContainerProvider:
    return ContainerProvider(find=lambda: Engine("unix:///fake.sock", {}, cast("docker.DockerClient", client)))


@pytest.mark.parametrize("prefix", ["", "localhost/", "docker.io/"])
def test_our_copy_of_the_image_goes_and_nothing_else(prefix: str) -> None:
    client = Client(Api(prefix))
    assert provider(client).forget_image(IMAGE) == [f"removed {prefix}{NAME} from the engine"]
    assert client.api.removed == [prefix + NAME]
    assert client.closed


def test_a_copy_that_a_container_is_made_from_stays() -> None:
    (said,) = provider(Client(Api(fails=409))).forget_image(IMAGE)
    assert said == f"{NAME} stays in the engine: a container of another run uses it"


def test_a_copy_stays_that_clusters_of_other_homes_are_made_from_although_the_engine_would_let_it_go() -> None:
    made = [{"Labels": {"cephlab.run": "one", "cephlab.home": "/b"}}] * 2 + [{"Labels": None}]
    client = Client(Api(containers_of_run=made))
    (said,) = provider(client).forget_image(IMAGE)
    assert said == f"{NAME} stays in the engine: a container of no home, one of /b uses it"
    assert client.api.removed == []


def test_an_engine_that_fails_is_told() -> None:
    with pytest.raises(LabBroken, match="removing cephlab/reef-amd64"):
        provider(Client(Api(fails=500))).forget_image(IMAGE)


def test_without_an_engine_there_is_nothing_to_forget() -> None:
    def none() -> Engine:
        raise Unavailable("no container engine is running")

    assert ContainerProvider(find=none).forget_image(IMAGE) == []
    assert ContainerProvider(find=none).other_images([]) == []


def test_copies_of_what_is_in_no_cache_are_named_but_stay() -> None:
    client = Client(Api())
    (said,) = provider(client).other_images([KEY])
    assert said.startswith(f"the engine holds {OTHER_NAME}, which is not in this cache")
    assert said.endswith(f"docker rmi {OTHER_NAME}")
    assert client.api.removed == []


def test_only_providers_that_keep_images_are_asked() -> None:
    client = Client(Api())
    everyone: dict[str, Callable[[], Provider]] = {"local": FakeProvider, "container": lambda: provider(client)}
    assert len(forget_copies(everyone, IMAGE)) == 1
    assert len(stray_copies(everyone, [IMAGE])) == 1


def test_an_engine_is_let_go_when_a_runs_name_is_taken_in_it(tmp_path: Path) -> None:
    run = Runs(Home(tmp_path)).create("container", "mine")
    labels = {**OURS["Labels"], "cephlab.home": str(tmp_path)}
    client = Client(Api(containers_of_run=[{"Names": ["/cephlab-mine.n0"], "Labels": labels}]))
    spec = build_spec([(Arch.X86_64, 1)])
    with pytest.raises(SpecError, match="resources of a cluster called 'mine'"), provider(client).launch(spec, {}, run):
        pytest.fail("it must not get here")
    assert client.closed
