"""Which measured demands a prediction starts from: a file, the newest of the user's, or the set that is shipped."""

from __future__ import annotations

import time
from pathlib import Path

from lab.errors import SpecError
from lab.telemetry import demandfile
from lab.telemetry.demand import Demand

SHIPPED = Path(__file__).with_name("demands")


def find_demands(own: Path, chosen: Path | None = None) -> tuple[tuple[Demand, ...], str]:
    """(demands, where they are from). own: the folder that `cephlab measure` writes to.

    Operations that the user's newest file has not measured come from the set that is shipped.
    Raises SpecError when the file is not a demand file, or there is none at all.
    """
    if chosen is not None:
        return demandfile.load(chosen), str(chosen)
    shipped, names = _shipped()
    files = sorted(own.glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        if not shipped:
            raise SpecError("no demand was measured yet", f"looked in {own}", "run `cephlab measure` first")
        return shipped, f"shipped with cephlab ({names}); `cephlab measure` makes your own"
    measured = demandfile.load(files[-1])
    known = {demand.operation.name for demand in measured}
    rest = tuple(demand for demand in shipped if demand.operation.name not in known)
    origin = f"measured here {_ago(files[-1])}: {files[-1].name}"
    if rest:
        origin += f"; {', '.join(sorted({one.operation.name for one in rest}))}: shipped with cephlab ({names})"
    return (*measured, *rest), origin


def _ago(path: Path) -> str:
    """How long a file has been there, in the largest unit that fits."""
    seconds = max(0.0, time.time() - path.stat().st_mtime)
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if count:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "less than a minute ago"


def _shipped() -> tuple[tuple[Demand, ...], str]:
    paths = sorted(SHIPPED.glob("*.json"))
    found = tuple(demand for path in paths for demand in demandfile.load(path))
    return found, ", ".join(path.name for path in paths)
