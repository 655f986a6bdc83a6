"""Finds the demands for a prediction: in a given file, in the user's newest one, and in the shipped sets."""

import time
from collections.abc import Sequence
from pathlib import Path

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, number_of
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand

_DEFAULT = number_of(DEFAULT_RELEASE) or 0
SHIPPED = Path(__file__).with_name("demands")


def find_demands(own: Path, chosen: Path | None = None) -> tuple[tuple[Demand, ...], str]:
    """(demands, where they come from). own: the folder that `cephlab measure` writes to.

    Demands that the user's newest file lacks are taken from the shipped ones of the nearest release (see `of_release`);
    without a file, all are shipped ones of the default release. SpecError when a file is not a demand file.
    """
    if chosen is not None:
        return demandfile.load(chosen), str(chosen)
    path, measured, every = _known(own)
    demands = of_release(every, measured[0].release if measured else DEFAULT_RELEASE)
    return demands, _origin(path, measured, demands)


def find_every_demand(own: Path, chosen: Path | None = None) -> tuple[tuple[Demand, ...], str]:
    """As `find_demands`, with shipped demands of every release, for predictions about several releases."""
    if chosen is not None:
        return demandfile.load(chosen), str(chosen)
    path, measured, every = _known(own)
    return every, _origin(path, measured, every)


def of_release(demands: Sequence[Demand], release: str) -> tuple[Demand, ...]:
    """Demands of the nearest release for each kind (operation, block size, protection); of two equally near, the newer.

    Releases differ: a client of Nautilus or Octopus pays twice for a large read, see docs/measured/model.md. Emulated
    measurements are kept, but replace no others.
    """
    wanted = number_of(release) or _DEFAULT

    def distance(demand: Demand) -> tuple[int, int]:
        number = number_of(demand.release) or _DEFAULT
        return abs(number - wanted), -number

    nearest: dict[tuple[str, int, bool], tuple[int, int]] = {}
    for demand in demands:
        if not demand.emulated:
            nearest[_kind(demand)] = min(distance(demand), nearest.get(_kind(demand), distance(demand)))
    return tuple(demand for demand in demands if demand.emulated or distance(demand) == nearest[_kind(demand)])


def with_shipped(demands: Sequence[Demand]) -> tuple[Demand, ...]:
    """These demands and, of any release, the shipped ones that they lack, for publications: see `of_release`."""
    shipped = [demand for path in sorted(SHIPPED.glob("*.json")) for demand in demandfile.load(path)]
    return (*demands, *missing_from(demands, shipped))


def missing_from(measured: Sequence[Demand], others: Sequence[Demand]) -> tuple[Demand, ...]:
    """Those of `others` whose release, operation, block size and kind of protection were not measured.

    A demand of one block size says nothing about another, so it does not replace it. Nor does an emulated measurement,
    which predictions do not use.
    """
    known = {(demand.release, _kind(demand)) for demand in measured if not demand.emulated}
    return tuple(demand for demand in others if (demand.release, _kind(demand)) not in known)


def _kind(demand: Demand) -> tuple[str, int, bool]:
    operation = demand.operation
    return operation.name, operation.block_bytes, bool(operation.k)


def _known(own: Path) -> tuple[Path | None, tuple[Demand, ...], tuple[Demand, ...]]:
    """(the user's newest file, its demands, these and the shipped ones); SpecError where there is none at all."""
    path = max(own.glob("*.json"), key=lambda path: path.stat().st_mtime, default=None)
    measured = demandfile.load(path) if path else ()
    every = with_shipped(measured)
    if not every:
        raise SpecError("no demand was measured yet", f"looked in {own}", "run `cephlab measure` first")
    return path, measured, every


def _origin(path: Path | None, measured: Sequence[Demand], used: Sequence[Demand]) -> str:
    rest = [demand for demand in used if demand not in measured]
    names = ", ".join(sorted({f"{demand.release}-{demand.arch}.json" for demand in rest}))
    if path is None or not measured:
        return f"shipped with cephlab ({names}); `cephlab measure` makes your own"
    origin = f"measured here {_ago(path)}: {path.name}"
    return f"{origin}; {_named(rest, measured)}: shipped with cephlab ({names})" if rest else origin


def _named(rest: Sequence[Demand], measured: Sequence[Demand]) -> str:
    """Names of operations, with the block size where another one was measured."""
    known = {(demand.release, demand.operation.name) for demand in measured}
    releases = {demand.release for demand in measured}

    def words(demand: Demand) -> str:
        size = f" {demand.operation.block_bytes} B" if (demand.release, demand.operation.name) in known else ""
        return f"{demand.operation.name}{size}{'' if demand.release in releases else f' of {demand.release}'}"

    return ", ".join(sorted({words(demand) for demand in rest}))


def _ago(path: Path) -> str:
    """The age of a file, in the largest unit that fits."""
    seconds = time.time() - path.stat().st_mtime
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds / length)
        if count > 0:
            return f"{how_many(count, unit)} ago"
    return "less than a minute ago"
