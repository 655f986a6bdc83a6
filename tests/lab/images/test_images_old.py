"""Images of a suite that is out of support: what its packages and its mirror do otherwise."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.resolve import DebianSource, resolve
from cephlab.lab.spec.arch import host_arch
from tests.fake_image_tools import FakeTools, make_store

NATIVE = host_arch()


def test_a_loader_that_is_an_absolute_link_leads_into_the_image(tmp_path: Path) -> None:
    def link(root: Path) -> None:
        loader = root / NATIVE.loader.lstrip("/")
        loader.rename(root / "usr/lib/ld-2.31.so")
        loader.symlink_to("/usr/lib/ld-2.31.so")

    loader = make_store(tmp_path, FakeTools(unpacking=link)).get("reef", NATIVE).root / NATIVE.loader.lstrip("/")
    assert loader.is_symlink()
    assert loader.resolve().name == "ld-2.31.so"
    assert loader.read_bytes()[:4] == b"\x7fELF"


SOURCES = """deb http://mirror.example/debian bullseye main
deb http://mirror.example/debian bullseye-updates main
deb http://mirror.example/debian-security bullseye-security main
"""


@pytest.mark.parametrize(
    ("supported", "mirror", "left"), [(True, None, 3), (False, None, 2), (False, "http://mirror.example/debian", 3)]
)
def test_updates_whose_files_are_gone_are_left_out(
    tmp_path: Path, supported: bool, mirror: str | None, left: int
) -> None:
    """Of a suite without support, that is; those of the others are taken, and a mirror of one's own is as it is."""
    tools = FakeTools()
    recipe = replace(read_recipes().find("reef", NATIVE), supported=supported, suite="bullseye")
    resolve(tools, recipe, DebianSource(mirror), tmp_path)
    (hooks,) = tools.hooks
    sources = tmp_path / "root/etc/apt/sources.list"
    sources.parent.mkdir(parents=True)
    sources.write_text(SOURCES)
    for hook in hooks:
        if hook.startswith("sed "):
            subprocess.run(["sh", "-c", hook, "sh", tmp_path / "root"], check=True)
    assert sources.read_text() == "".join(SOURCES.splitlines(keepends=True)[:left])
