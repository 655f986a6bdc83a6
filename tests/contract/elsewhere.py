"""A cephlab folder of one's own, with the images of another: so that a test keeps to itself without building any."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.images.image import Image


def with_images_of(source: Home, path: Path) -> Home:
    """A home at `path` whose images are links to those of `source`."""
    home = Home(path).ensure()
    for entry in source.images.iterdir():
        if entry.name == ".resolutions":
            shutil.copytree(entry, home.images / entry.name)
        elif entry.is_dir() and not entry.name.startswith("."):
            (home.images / entry.name).symlink_to(entry)
    return home


def given_copies_of(source: Home, images: Iterable[Image], path: Path, user: int) -> Home:
    """A home of `user` at `path` with these images, for one who may not enter `source` (a 0700 folder of root's).

    The files are hard links where the file system has them, so that a copy costs a second and no space; they keep
    their owner, because a link's owner is that of the file.
    """
    home = Home(path).ensure()
    shutil.copytree(source.images / ".resolutions", home.images / ".resolutions")
    give(path, user)
    for image in images:
        shutil.copytree(source.images / image.key, home.images / image.key, symlinks=True, copy_function=_link)
    return home


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def give(path: Path, user: int) -> None:
    """Make a user the owner of a tree, of its links but not of what they lead to."""
    for entry in (path, *path.rglob("*")):
        os.chown(entry, user, user, follow_symlinks=False)
