"""Limits for the duration of a scenario and for the growth of daemons, from its passes in kept archives.

Only passes in the same tier on the same provider count.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from cephlab.lab.archive.archive import HISTORY, JUDGED, MANIFEST, VERDICTS, Ending
from cephlab.lab.base.clock import TimeLimit
from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.aftermath import MOST_GROWN, largest_growth

TIMES = 5.0
"""Factor on the longest pass: a machine that also does other work is rarely slower by more."""
REST_S = 120.0
"""Added to it, times the patience: one wait for a healthy cluster may take this long."""
UNKNOWN_S: Mapping[str, float] = {"quick": 3600.0, "full": 6 * 3600.0}
"""Limits per tier, times the patience, if no pass is kept: longer than any scenario has taken."""
GROWN_TIMES = 4
"""Factor on the largest growth of daemons of a kind in a pass."""
GROWN_MORE: Mapping[str, int] = {
    "resident": 128 << 20,
    "threads": 16,
    "files": 32,
    "stored": 512 << 20,
    "logged": 8 << 20,
    "rgw threads": 200,
}
"""Added to it: in the first scenario of a new cluster its caches fill and a gateway starts its threads. By resource, or
by kind of daemon and resource."""
MOST_ARCHIVES = 200
"""Of older archives of a folder only the manifest is read."""


@dataclass(frozen=True)
class Place:
    """Passes of a scenario are compared only within one place. tier, provider: where it ran."""

    scenario: str
    tier: str
    provider: str


@dataclass(frozen=True)
class Pass:
    """A kept pass. patience: its factor on timeouts; grown: see `largest_growth`."""

    seconds: float
    patience: float
    grown: Mapping[str, int] = field(default_factory=dict)


Passes = Mapping[Place, Sequence[Pass]]


def limit_of(passes: Passes, place: Place, patience: float, *, lasts_s: float = 0.0) -> TimeLimit:
    """How long a scenario may take here. patience: factor on timeouts of the cluster, at least 1.

    lasts_s: length of a load chosen by the user; it is added to the limit.
    """
    limit = _by_passes(passes, place, patience)
    why = f"{limit.why}, and {lasts_s:.0f} s of load" if lasts_s else limit.why
    return TimeLimit(limit.of, limit.seconds + lasts_s, why)


def _by_passes(passes: Passes, place: Place, patience: float) -> TimeLimit:
    known = passes.get(place, ())
    if not known:
        allowed = UNKNOWN_S[place.tier]
        why = f"no pass is kept: {allowed:.0f} s for the {place.tier} tier, times the patience of {patience:.3g}"
        return TimeLimit(place.scenario, allowed * patience, why)
    took_s, longest = max(
        ((kept.seconds * max(1.0, patience / kept.patience), kept) for kept in known), key=lambda pair: pair[0]
    )
    scaled = "" if longest.patience == patience else f", {took_s:.0f} s with the patience of {patience:.3g} here"
    why = (
        f"{TIMES:g} times the longest of {how_many(len(known), 'kept pass', 'kept passes')} "
        f"({longest.seconds:.0f} s{scaled}) plus {REST_S * patience:.0f} s"
    )
    return TimeLimit(place.scenario, TIMES * took_s + REST_S * patience, why)


def growth_limits(passes: Passes, place: Place) -> dict[str, list[Any]]:
    """How much daemons may grow during a scenario here: `KIND WHAT` -> [most, why], as in `largest_growth`.

    Without a pass there is no limit here. The limits of `MOST_GROWN` always apply as well.
    """
    grown = [kept.grown for kept in passes.get(place, ()) if kept.grown]
    limits: dict[str, list[Any]] = {}
    for name in sorted({name for growth in grown for name in growth}):
        what = name.rpartition(" ")[2]
        most = max(growth.get(name, 0) for growth in grown)
        more = GROWN_MORE.get(name, GROWN_MORE[what])
        counted = how_many(len(grown), "kept pass", "kept passes")
        why = f"{GROWN_TIMES} times the most of {counted} ({most}) plus {more}"
        limits[name] = [min(GROWN_TIMES * most + more, MOST_GROWN[what]), why]
    return limits


def kept_passes(folder: Path) -> Passes:
    """The passes in a folder of archives; archives that cannot be read are left out."""
    passes: dict[Place, list[Pass]] = {}
    for archive in newest_first(folder):
        try:
            manifest, verdicts = read_verdicts(archive)
            for place, kept in _passes(manifest, verdicts, _growth(archive / HISTORY)):
                passes.setdefault(place, []).append(kept)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return passes


def last_times(folder: Path, names: Sequence[str]) -> dict[str, float]:
    """Scenario -> seconds that it took in the newest archive that came to a verdict on it.

    In a run that was interrupted, an inconclusive scenario may have been cut short. The histories are not read, because
    a gate would wait seconds for them.
    """
    times: dict[str, float] = {}
    for archive in newest_first(folder):
        try:
            manifest, verdicts = read_verdicts(archive)
            ended = JUDGED if manifest["state"] == "complete" else (Ending.PASS, Ending.FAIL)
            for verdict in verdicts:
                if verdict["scenario"] in names and verdict["ending"] in ended:
                    times.setdefault(verdict["scenario"], float(verdict["seconds"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if len(times) == len(names):
            break
    return times


def newest_first(folder: Path) -> list[Path]:
    """The newest MOST_ARCHIVES archives of a folder that have verdicts."""
    return [path for path in reversed(by_start(folder)) if (path / VERDICTS).is_file()][:MOST_ARCHIVES]


def by_start(folder: Path) -> list[Path]:
    """The archives of a folder in the order in which their runs began, by their manifests; unreadable ones first.

    Times of files differ after a copy, and names may have been given.
    """
    return sorted((path.parent for path in folder.glob(f"*/{MANIFEST}")), key=lambda path: (_began_s(path), path.name))


def _began_s(archive: Path) -> float:
    try:
        return datetime.fromisoformat(json.loads((archive / MANIFEST).read_text())["started"]).timestamp()
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return -math.inf


def read_verdicts(archive: Path) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Its manifest and its verdicts, unchecked; OSError, ValueError or KeyError if it cannot be read."""
    return json.loads((archive / MANIFEST).read_text()), json.loads((archive / VERDICTS).read_text())["verdicts"]


def _growth(history: Path) -> dict[str, dict[str, int]]:
    """Scenario -> the largest growth of daemons during it, from the history of a run."""
    if not history.exists():
        return {}
    with history.open() as lines:
        events = [json.loads(line) for line in lines if '"aftermath"' in line]
    return {event["scenario"]: largest_growth(event["data"]) for event in events if event["kind"] == "aftermath"}


def _passes(
    manifest: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]], grown: Mapping[str, Mapping[str, int]]
) -> Iterator[tuple[Place, Pass]]:
    clusters = {cluster["name"]: cluster for cluster in manifest["clusters"]}
    for verdict in verdicts:
        cluster = clusters.get(verdict["cluster"])
        if verdict["ending"] == Ending.PASS and cluster is not None and verdict["seconds"] > 0:
            place = Place(verdict["scenario"], manifest["tier"], cluster["provider"])
            growth = grown.get(verdict["scenario"], {})
            yield place, Pass(float(verdict["seconds"]), float(cluster["patience"]), growth)
