"""Which measured demands a prediction starts from: a file, the newest of the user's, or the set that is shipped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from lab.errors import SpecError
from lab.telemetry import demandfile
from lab.telemetry.demand import Demand

SHIPPED = Path(__file__).with_name("demands")


def find_demands(own: Path, chosen: Path | None = None) -> tuple[tuple[Demand, ...], str]:
    """(demands, where they are from). own: the folder that `cephlab measure` writes to.

    What the user's newest file has not measured comes from the set that is shipped (see `missing_from`).
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
    rest = missing_from(measured, shipped)
    origin = f"measured here {_ago(files[-1])}: {files[-1].name}"
    if rest:
        origin += f"; {_named(rest, measured)}: shipped with cephlab ({names})"
    return (*measured, *rest), origin


def missing_from(measured: Sequence[Demand], others: Sequence[Demand]) -> tuple[Demand, ...]:
    """Those of `others` whose operation, block size and kind of protection were not measured.

    One block size of an operation says nothing of another, so it takes none of them away; nor does an emulated
    measurement, which predictions do not use.
    """
    known = {_kind(demand) for demand in measured if not demand.emulated}
    return tuple(demand for demand in others if _kind(demand) not in known)


def _kind(demand: Demand) -> tuple[str, int, bool]:
    operation = demand.operation
    return operation.name, operation.block_bytes, bool(operation.k)


def _named(rest: Sequence[Demand], measured: Sequence[Demand]) -> str:
    """Operations, with the block size of those that were measured at another one."""
    known = {demand.operation.name for demand in measured}
    found = {
        f"{one.operation.name} {one.operation.block_bytes} B" if one.operation.name in known else one.operation.name
        for one in rest
    }
    return ", ".join(sorted(found))


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
