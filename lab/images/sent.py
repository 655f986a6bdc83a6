"""Sends images to the cache of another machine as one tar, without the images that it already has."""

import os
import sys
import tarfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

from cephlab.lab.base.errors import LabError
from cephlab.lab.base.home import Home, require_space
from cephlab.lab.images.build import tree_bytes
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.image import Image
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.resolve import DebianSource

_RESOLUTIONS = ".resolutions"


def tar_of(home: Home, images: Sequence[Image], there: Collection[str]) -> tuple[str, ...]:
    """The command that writes the tar: missing images, and the records of which image belongs to which release."""
    book, source = read_recipes(), DebianSource.from_environment()
    names = [source.name(book.find(image.release, image.arch, image.role_sets)) for image in images]
    missing = [image for image in images if image.key not in there]
    owners = ["--owner=0", "--group=0"] if any(image.root.stat().st_uid for image in missing) else []
    kept = [f"--exclude={image.key}/exports" for image in missing]
    resolutions = [f"{_RESOLUTIONS}/{name}.json" for name in dict.fromkeys(names)]
    folder = f"--directory={home.images}"
    return ("tar", "--create", "--numeric-owner", *owners, *kept, folder, *(i.key for i in missing), *resolutions)


def size_bytes(images: Sequence[Image], there: Collection[str]) -> int:
    """Disk space for the missing images."""
    return sum(tree_bytes(image.root) for image in images if image.key not in there)


def take(home: Home, needed_bytes: int, stream: BinaryIO) -> None:
    """Put the images of such a tar into the cache, each by one rename; SpecError if there is too little disk space."""
    home.ensure()
    require_space(home, needed_bytes, "the images that a gate sends")
    cache = Cache(home)
    with cache.scratch("sent") as scratch, tarfile.open(fileobj=stream, mode="r|") as archive:
        # Set as an attribute, since Python has it only from 3.11.4 on; older versions extract everything as it is.
        archive.extraction_filter = lambda member, _folder: member
        archive.extractall(scratch, members=filter(_possible, archive), numeric_owner=True)
        for folder in sorted(scratch.iterdir()):
            if folder.name != _RESOLUTIONS and not cache.directory(folder.name).exists():
                folder.replace(cache.directory(folder.name))
        # Last, because these records mean that the image is complete.
        (cache.folder / _RESOLUTIONS).mkdir(exist_ok=True)
        for path in sorted((scratch / _RESOLUTIONS).iterdir()):
            path.replace(cache.folder / _RESOLUTIONS / path.name)


def _possible(member: tarfile.TarInfo) -> bool:
    """Whether this user can create it: only root can create devices, and no program of the lab needs them there."""
    return not (member.ischr() or member.isblk()) or os.geteuid() == 0


def main(home: str, needed_bytes: str) -> None:
    """Take a tar from standard input; exits with the message of an error."""
    try:
        take(Home(Path(home)), int(needed_bytes), sys.stdin.buffer)
    except (LabError, OSError) as error:
        sys.exit(str(error))
