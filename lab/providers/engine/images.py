"""The file of an image that an engine imports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cephlab.lab.base.home import Home
from cephlab.lab.images.image import Image

if TYPE_CHECKING:
    from cephlab.lab.images.export import Form

Export = Callable[[Image], Path]
"""Gives the file of an image of ours, made on first use."""


def exporter(home: Home, form: Form) -> Export:
    """Exports from the cache, in a form that the engine reads."""

    def export(image: Image) -> Path:
        # Building images takes modules that a lab of cached images never needs.
        from cephlab.lab.images.store import ImageStore

        return ImageStore(home).export(image, form)

    return export
