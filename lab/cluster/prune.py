"""Removing runs: one by name, or everything that killed processes left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.errors import CleanupFailed, LabError
from lab.home import Home
from lab.images.image import Image
from lab.providers.base import KeepsImages, Provider
from lab.runs import Run, Runs

Providers = Mapping[str, Callable[[], Provider]]


class Fate(StrEnum):
    """Why a run is removed, or left alone."""

    ABANDONED = "abandoned"
    KEPT = "kept"
    LIVE = "live"
    STRAY = "stray"


@dataclass(frozen=True)
class Finding:
    """One run and what becomes of it. STRAY: things of a run whose directory is gone."""

    run: Run
    fate: Fate

    def doomed(self, *, kept_too: bool) -> bool:
        return self.fate in (Fate.ABANDONED, Fate.STRAY) or (kept_too and self.fate is Fate.KEPT)


@dataclass(frozen=True)
class Swept:
    """What `sweep` did, in words."""

    removed: tuple[str, ...]
    errors: tuple[str, ...]


def fate_of(run: Run) -> Fate:
    """Kept runs stay, runs of a living process are its own business, the rest is abandoned."""
    if run.kept:
        return Fate.KEPT
    return Fate.ABANDONED if run.abandoned() else Fate.LIVE


def survey(home: Home, providers: Providers) -> tuple[list[Finding], list[str]]:
    """Every run of a home with its fate, and in words which providers could not be asked for strays."""
    present: set[str] = set()
    errors = []
    for name, make in providers.items():
        try:
            present |= make().leftovers(home)
        except LabError as error:
            errors.append(f"{name}: {error}")
    # Looked at last: a run has its directory before it has anything else, so one that begins now is no stray.
    found = [Finding(run, fate_of(run)) for run in Runs(home).all()]
    known = {finding.run.id for finding in found}
    strays = [Finding(Run(run_id, home.runs / run_id), Fate.STRAY) for run_id in sorted(present - known)]
    return found + strays, errors


def sweep(home: Home, providers: Providers, doomed: Sequence[Finding]) -> Swept:
    """Remove those runs one after the other, whatever happens to any of them."""
    removed: list[str] = []
    errors: list[str] = []
    for finding in doomed:
        run = finding.run
        try:
            removed += [f"{run.id}: {thing}" for thing in remove(home, run, providers)]
        except LabError as error:
            errors.append(f"{run.id}: {error}")
    return Swept(tuple(removed), tuple(errors))


def remove(home: Home, run: Run, providers: Providers) -> list[str]:
    """Remove one run wherever it has anything; returns what was removed.

    Needs neither its state nor its daemons. Goes on after an error and raises CleanupFailed at the end; the run's
    directory stays then, so that a later `prune` still knows of it.
    """
    removed: list[str] = []
    errors: list[str] = []
    try:
        removed += _without_snaps(run)
    except LabError as error:
        raise CleanupFailed([str(error)]) from error
    for name in _holders(run, providers):
        try:
            removed += providers[name]().prune(home, run.id)
        except LabError as error:
            errors.append(f"{name}: {error}")
    if not errors:
        try:
            existed = run.directory.exists()
            Runs(home).forget(run)
            removed += [f"directory {run.directory}"] if existed else []
        except LabError as error:
            errors.append(str(error))
    if errors:
        raise CleanupFailed(errors)
    return removed


def _without_snaps(run: Run) -> list[str]:
    """What a run put onto machines that outlives its processes; the way to them goes with the run's directory."""
    from lab.deploy.machines import remove_from_machines

    return remove_from_machines(run)


def forget_copies(providers: Providers, image: Image) -> list[str]:
    """Remove the copies of an image that providers keep elsewhere than in the cache; in words, what became of each."""
    return [line for keeper in _keepers(providers) for line in keeper.forget_image(image)]


def stray_copies(providers: Providers, images: Sequence[Image]) -> list[str]:
    """Copies of images that are in no cache of this home, in words; nobody knows whether another home has them."""
    keys = frozenset(image.key for image in images)
    return [line for keeper in _keepers(providers) for line in keeper.other_images(keys)]


def _keepers(providers: Providers) -> list[KeepsImages]:
    return [made for make in providers.values() if isinstance(made := make(), KeepsImages)]


def _holders(run: Run, providers: Providers) -> list[str]:
    """The provider that a run names, else all of them: its owner may have died before it could say."""
    named = str(run.owner().get("provider", ""))
    return [named] if named in providers else list(providers)
