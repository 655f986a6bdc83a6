"""Stored baselines: what operations cost with one image, by release, architecture and the image's digest."""

from __future__ import annotations

from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand
from cephlab.lab.telemetry.demandfile import Measurement

_SHORT = 12


def folder(home: Home) -> Path:
    """The folder of all baselines."""
    return home.demands / "baseline"


def path_of(home: Home, demand: Demand) -> Path:
    """The file for a demand's release, architecture and image."""
    return folder(home) / f"{demand.release}-{demand.arch}-{demand.image[:_SHORT]}.json"


def store(home: Home, measured: Measurement) -> Path:
    """Store a measurement as the baseline of its operation for its image. Other operations keep theirs."""
    path = path_of(home, measured.demand)
    known = demandfile.load_measurements(path) if path.exists() else ()
    others = [entry for entry in known if entry.demand.operation != measured.demand.operation]
    demandfile.save(path, [*others, measured])
    return path


def find(home: Home, demand: Demand) -> Measurement | None:
    """The baseline of the same image, else the newest of the release and architecture.

    The first shows what changed around Ceph (the lab, the machine, options), the second what a new build changed.
    """
    own = path_of(home, demand)
    others = sorted(
        (path for path in folder(home).glob(f"{demand.release}-{demand.arch}-*.json") if path != own),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in [own, *others] if own.exists() else others:
        for entry in demandfile.load_measurements(path):
            if entry.demand.operation == demand.operation:
                return entry
    return None
