"""Predictions swept over the load, or over a figure of the profile: their points, as a table with bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cephlab.cli.figures import limit_lines
from cephlab.cli.output import Output, table
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import si

if TYPE_CHECKING:
    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profilefile import Hardware
    from cephlab.tuning.workload import Shape

_BAR_CHARS = 20


@dataclass(frozen=True)
class Point:
    """One point of a sweep. at: the value there; hardware, shape: what to predict for."""

    at: str
    hardware: Hardware
    shape: Shape


@dataclass(frozen=True)
class Sweep:
    """what: depth, clients, or a place in the profile; points: a tuple for each shape, in order."""

    what: str
    points: tuple[tuple[Point, ...], ...]

    @property
    def of_hardware(self) -> bool:
        """Whether the machines vary, not the load."""
        return self.what not in LOADS


LOADS = ("depth", "clients")


def read_sweep(text: str, hardware: Hardware, changes: Sequence[str], shapes: Sequence[Shape]) -> Sweep | None:
    """The points of `--sweep`; None without one. SpecError for what is neither a load nor PLACE=FIRST..LAST."""
    from cephlab.tuning.changes import sweep_of
    from cephlab.tuning.profilefile import load_hardware

    if not text:
        return None
    if text in LOADS:
        return Sweep(text, tuple(_of_load(hardware, shape, text) for shape in shapes))
    sweep = sweep_of(text)
    if sweep is None:
        raise SpecError(f"--sweep: {text!r} is not known", "wanted: depth, clients, or for example nodes.count=3..12")
    place, values = sweep
    others = [(str(value), load_hardware(hardware.path, (*changes, f"{place}={value}"))) for value in values]
    return Sweep(place, tuple(tuple(Point(at, other, shape) for at, other in others) for shape in shapes))


def _of_load(hardware: Hardware, shape: Shape, what: str) -> tuple[Point, ...]:
    """1, 2, 4 ... up to the shape's own depth or clients."""
    top = int(getattr(shape, what))
    steps = sorted({1 << power for power in range(top.bit_length())} | {top})
    shapes = ((n, replace(shape, depth=n) if what == "depth" else replace(shape, clients=n)) for n in steps if n <= top)
    return tuple(Point(str(n), hardware, swept) for n, swept in shapes)


def show_sweep(out: Output, what: str, points: Sequence[Point], predictions: Sequence[Prediction]) -> None:
    """Print a table with a bar for each rate, and below it what limits them."""
    most = max(point.ops for point in predictions)
    rows = []
    for at, point in zip(points, predictions, strict=True):
        low, high = point.trust.around(point.ops)
        interval = f"{si(low, '')} to {si(high, '')}"
        rows.append([at.at, si(point.ops, "ops/s"), interval, _bar(point.ops / most), si(point.latency_s, "s")])
    out.result(table((what, "rate", "90 % interval", "", "mean latency"), rows, wrapped=()), None)
    limited = [(at.at, point.bottleneck) for at, point in zip(points, predictions, strict=True)]
    out.lines(*limit_lines(f"at {what}", limited))


def _bar(share: float) -> str:
    return "█" * max(1, round(share * _BAR_CHARS))


def requirements_met(world: World, sweep: Sweep, demands: Sequence[Demand]) -> list[dict[str, Any]]:
    """For each value of a figure of the profile: requirement -> verdict. Empty for a load, or without requirements."""
    from cephlab.lab.checks.verdict import Verdict, merge
    from cephlab.tuning.held import held, trust_in

    first = sweep.points[0]
    if not sweep.of_hardware or not first[0].hardware.requirements:
        return []
    trust = trust_in(demands, world.profile)
    rows: list[dict[str, Any]] = []
    for point in first:
        verdicts: dict[str, Any] = {"at": point.at}
        for requirement in point.hardware.requirements:
            try:
                answers = held(requirement, point.hardware.profile, demands, trust)
            except SpecError as error:  # the other requirements can still be judged
                verdicts[requirement.name] = f"not judged: {error.what}"
                continue
            verdicts[requirement.name] = merge(
                Verdict(answer.outcome, answer.metric) for answer in answers
            ).outcome.value
        rows.append(verdicts)
    return rows


def show_met(out: Output, what: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a table of verdicts: a line for each value, a column for each requirement."""
    if rows:
        print("\nrequirements, judged by the interval of the prediction:")
        out.result(table((what, *list(rows[0])[1:]), [[str(value) for value in row.values()] for row in rows]), None)
