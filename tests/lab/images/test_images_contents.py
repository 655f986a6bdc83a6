"""An image whose files are not those that were built is refused before a gate, and the archive names its bytes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.images.image import Image, content_digest, contents, note_contents, require_unchanged
from cephlab.lab.spec.arch import Arch


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """A tree of two programs, a link and a folder, as it was built."""
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/ceph-osd").write_bytes(b"\x7fELF osd")
    (root / "usr/bin/rados").write_bytes(b"\x7fELF rados")
    (root / "bin").symlink_to("usr/bin")
    built = Image("reef", Arch.AARCH64, "f" * 64, root)
    note_contents(root, built.contents)
    return built


def test_a_tree_that_is_what_was_built_is_taken(image: Image) -> None:
    require_unchanged(image)
    assert sorted(contents(image.root)) == ["bin", "usr/bin/ceph-osd", "usr/bin/rados"]
    assert contents(image.root)["bin"] == "-> usr/bin"


def test_a_record_is_whole_or_not_there(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted gate would leave half of it, which no later one could read."""
    write, before = Path.write_text, image.contents.read_text()

    def interrupted(path: Path, text: str) -> int:
        write(path, text[: len(text) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        note_contents(image.root, image.contents)
    assert image.contents.read_text() == before


def touch(path: Path) -> None:
    path.write_bytes(b"\x7fELF osD")


def relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("usr/sbin")


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("usr/bin/ceph-osd", touch, "usr/bin/ceph-osd has changed"),
        ("usr/bin/rados", Path.unlink, "usr/bin/rados is gone"),
        ("usr/bin/more", touch, "usr/bin/more was added"),
        ("bin", relink, "bin has changed"),
    ],
)
def test_a_tree_that_has_changed_is_refused_by_the_file(
    image: Image, name: str, change: Callable[[Path], None], said: str
) -> None:
    change(image.root / name)
    with pytest.raises(LabBroken, match=r"image ffffffffffff \(reef, aarch64\) was changed after it was") as refused:
        require_unchanged(image)
    assert refused.value.detail == said
    assert "cephlab image rm ffffffffffff" in (refused.value.hint or "")


def reading(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The roots whose files are read from now on."""
    read: list[Path] = []

    def contents_of(root: Path) -> dict[str, str]:
        read.append(root)
        return contents(root)

    monkeypatch.setattr("cephlab.lab.images.image.contents", contents_of)
    return read


def test_a_tree_is_read_again_only_where_a_file_was_touched(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    read, osd = reading(monkeypatch), image.root / "usr/bin/ceph-osd"
    require_unchanged(image)
    require_unchanged(image)
    assert len(read) == 1
    before = osd.stat()
    while osd.stat().st_ctime_ns == before.st_ctime_ns:  # the kernel's clock for files moves every few milliseconds
        touch(osd)
    os.utime(osd, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (osd.stat().st_size, osd.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    for _ in range(2):
        with pytest.raises(LabBroken, match="1 file"):
            require_unchanged(image)
    assert len(read) == 3


def test_a_record_that_has_changed_is_compared_with(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    require_unchanged(image)
    read = reading(monkeypatch)
    image.contents.write_text(image.contents.read_text().replace("usr/bin/rados", "usr/bin/radar"))
    with pytest.raises(LabBroken, match="2 files"):
        require_unchanged(image)
    assert len(read) == 1


def test_only_the_first_files_are_named_and_all_are_counted(image: Image) -> None:
    for number in range(12):
        touch(image.root / f"more{number:02}")
    with pytest.raises(LabBroken, match="12 files") as refused:
        require_unchanged(image)
    assert len(refused.value.detail.splitlines()) == 10


def test_a_tree_from_before_is_noted_as_it_is(image: Image) -> None:
    noted = content_digest(image)
    image.contents.unlink()
    assert content_digest(image) == ""
    require_unchanged(image)
    assert content_digest(image) == noted
    assert len(noted) == 64


def test_what_this_user_may_not_read_is_not_compared(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Callable[..., Any] = Path.open

    def closed(path: Path, *how: object, **more: object) -> Any:
        if path.name == "rados":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *how, **more)

    touch(image.root / "usr/bin/rados")
    monkeypatch.setattr(Path, "open", closed)
    require_unchanged(image)
    touch(image.root / "usr/bin/ceph-osd")
    with pytest.raises(LabBroken, match="1 file"):
        require_unchanged(image)


def test_what_lies_in_a_folder_that_is_closed_is_not_gone(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    (image.root / "usr/bin/rados").unlink()
    monkeypatch.setattr("os.access", lambda folder, _mode: folder != image.root / "usr/bin")
    require_unchanged(image)
    monkeypatch.setattr("os.access", lambda _folder, _mode: True)
    with pytest.raises(LabBroken, match="1 file"):
        require_unchanged(image)


def test_another_users_tree_without_a_record_is_taken(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    image.contents.unlink()

    def refuse(path: Path, _text: str) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    require_unchanged(image)
    assert not image.contents.exists()
