"""How long a scenario may take: by what its passes in kept archives took, on the same provider and in the same tier."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.archive.archive import MANIFEST, VERDICTS, Ending
from cephlab.lab.base.clock import TimeLimit

TIMES = 5.0
"""The longest pass: a machine that does something beside is rarely slower by more."""
REST_S = 120.0
"""On top of it, before patience: of a short scenario, how long one wait for a healthy cluster may take."""
UNKNOWN_S: Mapping[str, float] = {"quick": 3600.0, "full": 6 * 3600.0}
"""By tier, before patience, where no pass is kept: longer than any scenario has taken."""
MOST_ARCHIVES = 200
"""The newest of a folder; their names begin with the time."""


@dataclass(frozen=True)
class Place:
    """What passes of a scenario are compared by. tier, provider: where it ran."""

    scenario: str
    tier: str
    provider: str


@dataclass(frozen=True)
class Pass:
    """One that was kept. patience: the factor on timeouts that it ran with."""

    seconds: float
    patience: float


Passes = Mapping[Place, Sequence[Pass]]


def limit_of(passes: Passes, place: Place, patience: float) -> TimeLimit:
    """How long a scenario may take here. patience: the cluster's own factor on timeouts, at least 1."""
    known = passes.get(place, ())
    if not known:
        allowed = UNKNOWN_S[place.tier]
        why = f"no pass is kept: {allowed:.0f} s for the {place.tier} tier times a patience of {patience:.3g}"
        return TimeLimit(place.scenario, allowed * patience, why)
    longest = max(known, key=lambda each: each.seconds / each.patience)
    took_s = longest.seconds * max(1.0, patience / longest.patience)
    scaled = "" if longest.patience == patience else f", {took_s:.0f} s by the patience of {patience:.3g} here"
    why = (
        f"{TIMES:g} times the longest of {len(known)} kept passes, {longest.seconds:.0f} s{scaled}, "
        f"and {REST_S * patience:.0f} s"
    )
    return TimeLimit(place.scenario, TIMES * took_s + REST_S * patience, why)


def kept_passes(folder: Path) -> Passes:
    """The passes in a folder of archives; what cannot be read there is left out, since it limits nothing."""
    passes: dict[Place, list[Pass]] = {}
    for archive in sorted(folder.glob(f"*/{VERDICTS}"), reverse=True)[:MOST_ARCHIVES]:
        try:
            manifest = json.loads((archive.parent / MANIFEST).read_text())
            for place, kept in _passes(manifest, json.loads(archive.read_text())["verdicts"]):
                passes.setdefault(place, []).append(kept)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return passes


def _passes(manifest: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Place, Pass]]:
    clusters = {cluster["name"]: cluster for cluster in manifest["clusters"]}
    for verdict in verdicts:
        cluster = clusters.get(verdict["cluster"])
        if verdict["ending"] == Ending.PASS and cluster is not None and verdict["seconds"] > 0:
            place = Place(verdict["scenario"], manifest["tier"], cluster["provider"])
            yield place, Pass(float(verdict["seconds"]), float(cluster["patience"]))
