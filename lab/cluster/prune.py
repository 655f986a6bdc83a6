"""Removing runs: one by name, or everything that killed processes left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cephlab.lab.base.errors import CleanupFailed, LabError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId, Runs, run_ids
from cephlab.lab.cluster.deploy import undeploy
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import KeepsImages, Provider

Providers = Mapping[str, Callable[[], Provider]]


class Fate(StrEnum):
    """Why a run is removed, or left alone."""

    ABANDONED = "abandoned"
    KEPT = "kept"
    LIVE = "live"
    STRAY = "stray"


@dataclass(frozen=True)
class Finding:
    """One run and what becomes of it. STRAY: the run has no directory, but some things of it exist.

    holders: providers that have them.
    """

    run: Run
    fate: Fate
    holders: tuple[str, ...] = ()

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
    holders: dict[RunId, list[str]] = {}
    errors = []
    for name, make in providers.items():
        try:
            for run_id in run_ids(make().leftovers(home)):
                holders.setdefault(run_id, []).append(name)
        except (LabError, OSError) as error:
            errors.append(f"{name} was not looked at: {error}")
    # Runs are listed last: a run makes its directory first, so one that starts now does not count as a stray.
    findings = [Finding(run, fate_of(run)) for run in Runs(home).all()]
    # A run of another user is that user's business.
    known = {finding.run.id for finding in findings} | {folder.name for folder in Runs(home).others()}
    strays = {run_id: tuple(names) for run_id, names in sorted(holders.items()) if run_id not in known}
    findings += [Finding(Run(run_id, home.runs / run_id), Fate.STRAY, names) for run_id, names in strays.items()]
    return findings, errors


def sweep(home: Home, providers: Providers, doomed: Sequence[Finding]) -> Swept:
    """Remove those runs one after the other, whatever happens to any of them."""
    removed: list[str] = []
    errors: list[str] = []
    for finding in doomed:
        run = finding.run
        stray = finding.fate is Fate.STRAY
        try:
            gone = _remove_traces(run, providers, finding.holders) if stray else remove(home, run, providers)
            removed += [f"{run.id}: {thing}" for thing in gone]
        except (LabError, OSError) as error:
            errors.append(f"{run.id}: {error}")
    return Swept(tuple(removed), tuple(errors))


def remove(home: Home, run: Run, providers: Providers) -> list[str]:
    """Remove one run wherever it has anything; returns what was removed.

    Needs neither its state nor its daemons. Goes on after an error and raises CleanupFailed at the end; the run's
    directory stays then, so that a later `prune` still knows of it.
    """
    try:
        removed = undeploy(run)
    except LabError as error:
        raise CleanupFailed([str(error)]) from error
    removed += _remove_traces(run, providers, _holders(run, providers))
    existed = run.directory.exists()
    try:
        Runs(home).forget(run)
    except LabError as error:
        raise CleanupFailed([str(error)]) from error
    return [*removed, f"directory {run.directory}"] if existed else removed


def _remove_traces(run: Run, providers: Providers, holders: Sequence[str]) -> list[str]:
    """Everything of a run that is outside its directory."""
    removed: list[str] = []
    errors: list[str] = []
    for name in holders:
        try:
            removed += providers[name]().prune(run.home, run.id)
        except (LabError, OSError) as error:
            errors.append(f"{name}: {error}")
    if errors:
        raise CleanupFailed(errors)
    return removed


def forget_copies(providers: Providers, image: Image) -> list[str]:
    """Remove the copies of an image that providers keep elsewhere than in the cache; in words, what became of each."""
    return [line for keeper in _keepers(providers) for line in keeper.forget_image(image)]


def stray_copies(providers: Providers, images: Sequence[Image]) -> list[str]:
    """Copies of images that this home's cache does not have, in words. Another home may have them."""
    keys = frozenset(image.key for image in images)
    return [line for keeper in _keepers(providers) for line in keeper.other_images(keys)]


def _keepers(providers: Providers) -> list[KeepsImages]:
    return [made for make in providers.values() if isinstance(made := make(), KeepsImages)]


def _holders(run: Run, providers: Providers) -> list[str]:
    """The provider that a run names, else all of them: its owner may have died before it could say."""
    named = str(run.owner().get("provider"))
    return [named] if named in providers else list(providers)
