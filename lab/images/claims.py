"""Which runs start from which images, so that no image is removed under a cluster that is being raised or runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, Runs, write_json
from cephlab.lab.images.cache import Cache
from cephlab.lab.images.image import Image

_FILE = "images.json"


def claim(run: Run, images: Iterable[Image]) -> None:
    """Note which images a run is about to start from; LabBroken when one was removed since it was found."""
    ours = [image for image in images if image.reference is None]  # the engine looks after pulled ones
    with Cache(run.home).claiming():
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
    # Other users' too: their clusters run from it just as well.
    for folder in [*(run.directory for run in Runs(home).all()), *Runs(home).others()]:
        if any(image.key in _text(folder / name) for name in (_FILE, "cluster.json")):
            raise SpecError(
                f"image {image.key[:12]} is in use by the cluster {folder.name}",
                "its programs run straight from the image",
                f"remove the cluster first: cephlab down {folder.name}",
            )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return ""
