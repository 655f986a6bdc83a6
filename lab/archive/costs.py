"""The costs of operations that earlier runs on this machine have measured, from kept archives."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from cephlab.lab.archive.archive import HISTORY, Ending
from cephlab.lab.archive.durations import newest_first, read_verdicts
from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import Event
from cephlab.lab.spec.clusterspec import UNKNOWN_RELEASE
from cephlab.lab.telemetry.demandfile import EVENT, Measurement, measured_in
from cephlab.lab.telemetry.usual import Earlier

SAME = ("cpu", "cores", "kernel", "provider", "disks")
"""Conditions that must be equal: the machine, and where the cluster and its disks are."""
_NOT_RED = (0, 6)
"""Exit codes of a run that may be compared with: passed, or inconclusive."""
_SOUND = (Ending.PASS, Ending.INCONCLUSIVE)


def earlier_costs(folder: Path, scenario: str, now: Measurement, least_operations: float) -> list[Earlier]:
    """Measurements like this one by the same scenario in a folder of archives, in the order in which its runs began.

    Left out are runs that were red or interrupted, measurements of fewer operations, and archives that cannot be read.
    """
    earlier: list[Earlier] = []
    for archive in reversed(newest_first(folder)):
        try:
            manifest, verdicts = read_verdicts(archive)
            endings = {row["scenario"]: row["ending"] for row in verdicts}
            if endings.get(scenario) not in _SOUND or not _whole(manifest):
                continue
            began_s = datetime.fromisoformat(manifest["started"]).timestamp()
            measured = [before for before in _measured(archive / HISTORY, scenario) if _alike(before, now)]
            enough = [before for before in measured if float(before.conditions["operations"]) >= least_operations]
            earlier += [Earlier(archive.name, began_s, before) for before in enough]
        except (OSError, ValueError, KeyError, TypeError, SpecError):
            continue
    return earlier


def _whole(manifest: Mapping[str, Any]) -> bool:
    return manifest["state"] == "complete" and manifest["exit_code"] in _NOT_RED


def _measured(history: Path, scenario: str) -> tuple[Measurement, ...]:
    with history.open() as lines:
        raw = [json.loads(line) for line in lines if f'"{EVENT}"' in line]
    events = (Event(row["scenario"], row["at_s"], row["kind"], row["data"]) for row in raw)
    return measured_in(event for event in events if event.scenario == scenario)


def _alike(before: Measurement, now: Measurement) -> bool:
    """Whether a difference would be one of Ceph or the lab. Pulled images have no known release: they must be equal."""
    old, new = before.demand, now.demand
    return (
        (old.operation, old.arch, old.release) == (new.operation, new.arch, new.release)
        and (old.image == new.image or new.release != UNKNOWN_RELEASE)
        and not (old.emulated or new.emulated)
        and all(before.conditions.get(key) == now.conditions.get(key) for key in SAME)
    )
