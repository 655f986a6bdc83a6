"""Removes runs: one by name, or everything that killed processes left behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cephlab.lab.base.errors import CleanUp, CleanupFailed, LabError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId, Runs, run_ids
from cephlab.lab.cluster.deploy import undeploy
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import KeepsImages, Provider

Providers = Mapping[str, Callable[[], Provider]]


class Fate(StrEnum):
    """Why a run is removed or left alone."""

    ABANDONED = "abandoned"
    KEPT = "kept"
    LIVE = "live"
    STRAY = "stray"


@dataclass(frozen=True)
class SurveyedRun:
    """A run and its fate. STRAY: the run has no directory, but providers (holders) still have things of it."""

    run: Run
    fate: Fate
    holders: tuple[str, ...] = ()

    def doomed(self, *, kept_too: bool) -> bool:
        return self.fate in (Fate.ABANDONED, Fate.STRAY) or (kept_too and self.fate is Fate.KEPT)


@dataclass(frozen=True)
class Swept:
    """The result of `sweep`, in words."""

    removed: tuple[str, ...]
    errors: tuple[str, ...]


def fate_of(run: Run) -> Fate:
    """Whether a run is kept, abandoned, or owned by a living process."""
    if run.kept:
        return Fate.KEPT
    return Fate.ABANDONED if run.abandoned() else Fate.LIVE


def survey(home: Home, providers: Providers) -> tuple[list[SurveyedRun], list[str]]:
    """Every run of a home with its fate, and the errors of providers that could not be asked for strays, in words."""
    holders: dict[RunId, list[str]] = {}
    clean_up = CleanUp()
    for name, make in providers.items():
        with clean_up.step(f"provider {name} was not checked"):
            for run_id in run_ids(make().leftovers(home)):
                holders.setdefault(run_id, []).append(name)
    # Runs are listed last. A run makes its directory first, so one that starts now does not count as a stray.
    runs = [SurveyedRun(run, fate_of(run)) for run in Runs(home).all()]
    # Runs of another user are left to that user.
    known = {item.run.id for item in runs} | {folder.name for folder in Runs(home).others()}
    strays = {run_id: tuple(names) for run_id, names in sorted(holders.items()) if run_id not in known}
    runs += [SurveyedRun(Run(run_id, home.runs / run_id), Fate.STRAY, names) for run_id, names in strays.items()]
    return runs, clean_up.errors


def sweep(home: Home, providers: Providers, doomed: Sequence[SurveyedRun]) -> Swept:
    """Remove these runs one after the other. Goes on after an error."""
    removed: list[str] = []
    clean_up = CleanUp()
    for surveyed in doomed:
        run, stray = surveyed.run, surveyed.fate is Fate.STRAY
        with clean_up.step(run.id):
            things = _remove_traces(run, providers, surveyed.holders) if stray else remove(home, run, providers)
            removed += [f"{run.id}: {thing}" for thing in things]
    return Swept(tuple(removed), tuple(clean_up.errors))


def remove(home: Home, run: Run, providers: Providers) -> list[str]:
    """Remove everything of a run; returns what was removed. Needs neither its state nor its daemons.

    Raises CleanupFailed if something is left. The run's directory then stays, so that a later `prune` still finds it.
    What cephadm deployed goes first, since only the nodes can remove it; if it stays, the nodes do too.
    """
    # All providers are asked if the run's owner died before it could name one.
    named = str(run.owner().get("provider"))
    try:
        removed = undeploy(run)
        removed += _remove_traces(run, providers, [named] if named in providers else list(providers))
        existed = run.directory.exists()
        Runs(home).forget(run)
    except CleanupFailed:
        raise
    except LabError as error:
        raise CleanupFailed([str(error)]) from error
    return [*removed, f"directory {run.directory}"] if existed else removed


def _remove_traces(run: Run, providers: Providers, holders: Sequence[str]) -> list[str]:
    """Remove everything of a run that is outside its directory; returns what was removed."""
    removed: list[str] = []
    clean_up = CleanUp()
    for name in holders:
        with clean_up.step(name):
            removed += providers[name]().prune(run.home, run.id)
    clean_up.end()
    return removed


def forget_copies(providers: Providers, image: Image) -> list[str]:
    """Remove the copies of an image that providers keep outside the cache; returns what became of each, in words."""
    return [line for keeper in _keepers(providers) for line in keeper.forget_image(image)]


def stray_copies(providers: Providers, images: Sequence[Image]) -> list[str]:
    """Copies of images that this home's cache does not have, in words. They may belong to another home."""
    keys = frozenset(image.key for image in images)
    return [line for keeper in _keepers(providers) for line in keeper.other_images(keys)]


def _keepers(providers: Providers) -> list[KeepsImages]:
    return [provider for make in providers.values() if isinstance(provider := make(), KeepsImages)]
