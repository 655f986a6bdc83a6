"""Which mirror images and kernels came from is part of what they are."""

from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.images.cache import Cache, image_key
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import KernelStore
from cephlab.lab.images.lock import Deb
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.resolve import DebianSource, Resolution
from cephlab.lab.spec.arch import Arch, host_arch
from tests.fake_image_tools import VERSIONS, FakeTools, make_store

NATIVE = host_arch()


@pytest.mark.slow
def test_each_mirror_has_images_of_its_own_and_naming_none_changes_no_key(tmp_path: Path) -> None:
    tools = FakeTools()
    usual = make_store(tmp_path, tools)
    mine, other = (make_store(tmp_path, tools, mirror=f"http://{name}.example/debian") for name in ("mine", "other"))
    images = [store.get("reef", NATIVE) for store in (usual, mine, other)]
    assert len({image.key for image in images}) == 3
    assert [call for call in tools.calls if call[0] == "unpack"] == [("unpack", NATIVE.debian)] * 3
    assert images[0].key == image_key(usual.book.find("reef", NATIVE).digest, VERSIONS)
    assert [store.cached("reef", NATIVE) for store in (usual, mine, other)] == images


def test_a_kernel_of_one_mirror_is_none_of_another(tmp_path: Path) -> None:
    home = Home(tmp_path).ensure()
    recipe = read_recipes().find_kernel("uml", Arch.X86_64)
    tree = tmp_path / "tree"
    (tree / "root/usr/bin").mkdir(parents=True)
    (tree / "root/usr/bin/linux.uml").touch()
    (tree / "root/usr/lib/uml/modules/6.1").mkdir(parents=True)
    mine = DebianSource("http://mine.example/debian")
    key = image_key(mine.digest(recipe), VERSIONS)
    Cache(home).put(Image(recipe.release, recipe.arch, key, tree / "root", VERSIONS, ()), tree)
    name = f"{recipe.release}-amd64-{mine.digest(recipe)[:12]}"
    debs = {package: Deb(version=version, arch="amd64", sha256="0" * 64) for package, version in VERSIONS.items()}
    Cache(home).remember(name, Resolution(debs, 0))
    made = KernelStore(home, source=mine).cached("uml", Arch.X86_64)
    assert made is not None
    assert made.key == key
    assert KernelStore(home, source=DebianSource()).cached("uml", Arch.X86_64) is None


def test_a_mirror_is_the_same_with_a_slash_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEPHLAB_MIRROR", "http://mine.example/debian/")
    assert DebianSource.from_environment() == DebianSource("http://mine.example/debian")
