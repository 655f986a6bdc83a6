"""Images that several want at once: none is removed under a cluster that is being raised, none is made twice."""

import threading
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.images.cache import Cache, claim
from cephlab.lab.images.image import Image
from cephlab.lab.spec.arch import host_arch
from tests.fake_image_tools import FakePreload, make_store
from tests.fake_provider import FakeProvider, providers

NATIVE = host_arch()
PULLED = Image("reef", NATIVE, "c" * 64, Path("/"), reference="quay.io/ceph/ceph:v18")


@pytest.mark.slow
def test_an_image_that_a_run_has_claimed_is_not_removed(tmp_path: Path) -> None:
    store, home = make_store(tmp_path), Home(tmp_path / "home")
    image = store.get("reef", NATIVE)
    run = Runs(home).create("local", "one")
    claim(run, [image, PULLED])
    with pytest.raises(SpecError, match="in use by the cluster one") as caught:
        store.remove(image)
    assert caught.value.hint == "remove the cluster first: cephlab down one"
    assert image.root.is_dir()
    Runs(home).forget(run)
    store.remove(image)
    assert not image.root.exists()


def test_an_image_stays_that_a_run_of_a_home_with_the_same_images_has_claimed(tmp_path: Path) -> None:
    image, home = make_store(tmp_path).get("reef", NATIVE), Home(tmp_path / "home")
    other = Home(tmp_path / "other")
    other.path.mkdir()
    other.images.symlink_to(home.images)
    run = Runs(other).create("local", "one")
    claim(run, [image])
    ended = CliRunner().invoke(app, ["image", "rm", "reef"], obj=World(home, providers(FakeProvider())))
    assert ended.exit_code == 2
    assert f"in use by the cluster one of the home {other.path}" in ended.stderr
    assert f"CEPHLAB_HOME={other.path} cephlab down one" in ended.stderr
    assert image.root.is_dir()
    Runs(other).forget(run)
    claim(Runs(other).create("local", "two"), [])
    assert len(list((home.images / ".claims").iterdir())) == 1, "claims of runs that are gone go with the next"
    make_store(tmp_path).remove(image)
    assert not image.root.exists()


def test_a_removed_image_cannot_be_claimed(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    image = store.get("reef", NATIVE)
    store.remove(image)
    with pytest.raises(LabBroken, match="was removed while one was about to start"):
        claim(Runs(Home(tmp_path / "home")).create("local", "one"), [image])


def test_no_run_claims_an_image_while_it_is_removed(tmp_path: Path) -> None:
    """Whoever comes first, the image is either claimed and there, or gone and not claimed."""
    store, home = make_store(tmp_path), Home(tmp_path / "home")
    image = store.get("reef", NATIVE)
    run = Runs(home).create("local", "one")
    claimed: list[bool] = []

    def try_to_claim() -> None:
        try:
            claim(run, [image])
        except LabBroken:
            claimed.append(False)
        else:
            claimed.append(True)

    other = threading.Thread(target=try_to_claim)

    def check() -> None:
        other.start()
        other.join(0.1)
        assert other.is_alive(), "it must wait until the removal is done"

    Cache(home).remove(image, check=check)
    other.join()
    assert claimed == [False]


def test_a_changed_preload_is_compiled_once_however_many_want_it(tmp_path: Path) -> None:
    make_store(tmp_path).get("reef", NATIVE)
    busy: list[int] = []
    together: list[int] = []

    def compiling() -> None:
        busy.append(1)
        together.append(len(busy))
        threading.Event().wait(0.05)  # long enough for another to come in
        busy.pop()

    changed = FakePreload("shim-2", b"new", compiling=compiling)
    with ThreadPoolExecutor(4) as pool:
        images = list(pool.map(lambda _: make_store(tmp_path, preload=changed).get("reef", NATIVE), range(4)))
    assert together == [1]
    assert images[0].aio_shim.read_bytes() == b"new"


# The command


@dataclass
class Keeper(FakeProvider):
    """A provider that has copies of images. forgotten: keys of those that it was told to forget."""

    forgotten: list[str] = field(default_factory=list)

    def forget_image(self, image: Image) -> list[str]:
        self.forgotten.append(image.key)
        return [f"removed {image.oci_name} from the engine"]

    def other_images(self, keys: Collection[str]) -> list[str]:
        return [] if self.forgotten else [f"the engine holds another than {len(keys)}"]


def call(world: World, *words: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, list(words), obj=world)
    return ended.exit_code, ended.stdout, ended.stderr


def test_image_rm_refuses_what_is_claimed_then_removes_it_and_its_copies(tmp_path: Path) -> None:
    image, keeper = make_store(tmp_path).get("reef", NATIVE), Keeper("container")
    world = World(Home(tmp_path / "home"), providers(keeper))
    run = world.runs.create("local", "one")
    claim(run, [image])
    code, _, said = call(world, "image", "rm", "reef")
    assert (code, keeper.forgotten, image.root.is_dir()) == (2, [], True)
    assert "cephlab down one" in said
    world.runs.forget(run)
    _, _, said = call(world, "prune", "--all")
    assert said.splitlines() == [f"home: {world.home.path}", "the engine holds another than 1"]
    code, said, _ = call(world, "image", "rm", "reef")
    assert (code, keeper.forgotten, image.root.exists()) == (0, [image.key], False)
    assert f"removed {image.oci_name} from the engine" in said
