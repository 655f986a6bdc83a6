"""What a command works on: the home, the providers and the images. Tests pass their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home, default_home
from cephlab.lab.base.runs import Run, Runs

if TYPE_CHECKING:
    from cephlab.lab.cluster.own import OwnCluster
    from cephlab.lab.images.store import ImageStore
    from cephlab.lab.providers.base import Provider
    from cephlab.tuning.profile import Profile


@dataclass(frozen=True)
class World:
    """providers: name -> function that makes the provider."""

    home: Home
    providers: Mapping[str, Callable[[], Provider]]

    @property
    def runs(self) -> Runs:
        return Runs(self.home)

    @property
    def images(self) -> ImageStore:
        return self.images_of(None)

    def images_of(self, snapshot: datetime | None) -> ImageStore:
        """The images, built from the packages of that day; None: from those of today."""
        from cephlab.lab.images.resolve import DebianSource
        from cephlab.lab.images.store import ImageStore

        return ImageStore(self.home, source=replace(DebianSource.from_environment(), snapshot=snapshot))

    def profile(self, name: str, changes: Sequence[str] = ()) -> Profile:
        """A profile by name or path. changes: `PLACE=VALUE`, which override its file."""
        from cephlab.tuning.profilefile import find_profile

        return find_profile(name, self.home.profiles, changes)

    def provider_of(self, run: Run) -> Provider:
        """The provider of a run's hosts; SpecError if the run names none, or one that is unknown."""
        from cephlab.lab.providers.select import provider

        owner = run.owner()
        if "provider" not in owner:
            hint = "`cephlab prune` removes it"
            raise SpecError(f"'{run.id}' is not a cluster", "its run ended before it recorded a provider", hint)
        return provider(str(owner["provider"]), self.providers)

    def cluster(self, name: str) -> OwnCluster:
        """A kept cluster by name; SpecError when there is none or it is not up yet."""
        from cephlab.lab.cluster.own import load_cluster

        run = self.runs.get(name)
        return load_cluster(self.provider_of(run), run)


def world_of(ctx: typer.Context) -> World:
    """The world that the command was called with; by default the real one."""
    if isinstance(ctx.obj, World):
        return ctx.obj
    from cephlab.lab.providers.select import PROVIDERS

    return World(default_home(), PROVIDERS)
