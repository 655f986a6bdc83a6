"""What a command works on: the home, the providers and the images; tests put their own in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from lab.home import Home, default_home
from lab.runs import Run, Runs

if TYPE_CHECKING:
    from lab.cluster import Cluster
    from lab.images.store import ImageStore
    from lab.providers.base import Provider


@dataclass(frozen=True)
class World:
    """providers: name -> how to make it."""

    home: Home
    providers: Mapping[str, Callable[[], Provider]]

    @property
    def runs(self) -> Runs:
        return Runs(self.home)

    @property
    def images(self) -> ImageStore:
        from lab.images.store import ImageStore

        return ImageStore(self.home)

    def provider_of(self, run: Run) -> Provider:
        """The provider that a run's hosts come from; SpecError when it is not known any more."""
        from lab.providers.select import provider

        return provider(str(run.owner().get("provider", "")), self.providers)

    def cluster(self, name: str) -> Cluster:
        """A kept cluster by name; SpecError when there is none or it is not up yet."""
        from lab.kept import load_cluster

        run = self.runs.get(name)
        return load_cluster(self.provider_of(run), run)


def world_of(ctx: typer.Context) -> World:
    """The world that a command was called with, else the real one."""
    if isinstance(ctx.obj, World):
        return ctx.obj
    from lab.providers.select import PROVIDERS

    return World(default_home(), PROVIDERS)
