"""Which runs start from which images, so that no image is removed under a cluster that is being raised or runs."""

from __future__ import annotations

from collections.abc import Iterable

from lab.errors import LabBroken, SpecError
from lab.home import Home
from lab.images.cache import Cache
from lab.images.image import Image
from lab.runs import Run, Runs, write_json

_FILE = "images.json"


def claim(run: Run, images: Iterable[Image]) -> None:
    """Say that a run starts from images, before it does; a pulled one is the engine's business.

    Raises LabBroken when one of them has been removed since it was found.
    """
    ours = [image for image in images if image.reference is None]
    with Cache(Home(run.directory.parent.parent)).claiming():
        for image in ours:
            if not image.root.is_dir():
                raise LabBroken(
                    f"the image of {image.release} for {image.arch} was removed while {run.id} was about to start",
                    f"{image.root} is gone",
                    "run the same command again: it builds the image anew",
                )
        write_json(run.directory / _FILE, {"keys": [image.key for image in ours]})


def refuse_used(home: Home, image: Image) -> None:
    """SpecError when a run has claimed the image, or is a cluster of an older cephlab with it in its state."""
    for run in Runs(home).all():
        if any(image.key in _text(run, name) for name in (_FILE, run.state_file.name)):
            raise SpecError(
                f"image {image.key[:12]} is in use by the cluster {run.id}",
                "its programs run straight from the image",
                f"remove the cluster first: cephlab down {run.id}",
            )


def _text(run: Run, name: str) -> str:
    try:
        return (run.directory / name).read_text()
    except FileNotFoundError:
        return ""
