"""False alarms and detections of regression verdicts, by experiment: `tox -e regression -- PAIRS [OPERATION...]`.

`tox -e regression -- computed` has no cluster: starts are drawn at random, and judged by the same rule.
"""

import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from cephlab.lab.base.home import default_home
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.telemetry.compare import compare, overall, settled
from cephlab.lab.telemetry.demand import CPU, OSD_ROLES, Demand, Interval, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import CALIBRATED, PAIR, Batch, Measurement
from cephlab.lab.telemetry.plan import cost_of
from cephlab.lab.telemetry.side_by_side import Starts, enough
from tests.bench import trials
from tests.bench.trials import Trial

_OPERATIONS = ("randwrite", "randread")
_DRAWS = 500
_SEED = 1
_SPREADS = (0.05, 0.07, 0.09, 0.10, 0.12)
USUAL = Starts.within(224.0)
"""As `ci/costs` measures: as many starts as a trial has."""


def main(arguments: Sequence[str]) -> None:
    """Measure so many new pairs of clusters, then judge every pair that was ever measured here."""
    console = Console(width=140)
    if [*arguments] == ["computed"]:
        console.print(computed())
        return
    home = default_home().ensure()
    count = int(arguments[0]) if arguments else 1
    for _ in range(count):
        for operation in arguments[1:] or _OPERATIONS:
            trials.make(home, operation, print)
    known_trials = trials.known(home)
    for operation in sorted({trial.operation for trial in known_trials}):
        console.print(table(operation, [trial for trial in known_trials if trial.operation == operation]))


def table(operation: str, operation_trials: Sequence[Trial]) -> Table:
    """Verdicts of disjoint runs of starts as a user's measurement would have taken them, and of random ones."""
    pairs = len({trial.pair for trial in operation_trials})
    made = Table(title=f"{operation}: {pairs} pairs of clusters")
    columns = (
        "after",
        "neighbours",
        "starts",
        "mean",
        "spread",
        "measurements",
        "fail",
        "inconclusive",
        "pass",
        "drawn",
    )
    for column in columns:
        made.add_column(column)
    for slower in (False, True):
        for busy in (False, True):
            alike = [trial for trial in operation_trials if (trial.slower, trial.neighbours) == (slower, busy)]
            logs = [value for trial in alike for value in steps(trial.before, trial.after)]
            if len(logs) < 2:
                continue
            counted = Counter(verdict(before, after) for trial in alike for before, after in cut(trial))
            made.add_row(
                f"{trials.SLOWER_PERCENT} % slower" if slower else "the same",
                "busy" if busy else "quiet",
                str(len(logs)),
                f"{math.exp(statistics.mean(logs)) - 1:+.1%}",
                f"{statistics.stdev(logs):.1%}",
                str(sum(counted.values())),
                *(str(counted[outcome]) for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)),
                f"{drawn(alike):.1%} {'found' if slower else 'false alarms'}",
            )
    return made


def steps(before: Measurement, after: Measurement) -> list[float]:
    """Logarithm of after / before of the OSDs' CPU beside the client's, start by start."""
    sides = [
        [cost_of(batch.costs, OSD_ROLES, CPU) / cost_of(batch.costs, (Role.CLIENT,), CPU) for batch in side.batches]
        for side in (before, after)
    ]
    return [math.log(cost_after / cost_before) for cost_before, cost_after in zip(*sides, strict=True)]


def cut(trial: Trial) -> Iterator[tuple[Measurement, Measurement]]:
    """One measurement after the other out of a trial's starts, each ended when it would have been.

    A rest of half of what a measurement takes is one too, of less time.
    """
    rest = list(zip(trial.before.batches, trial.after.batches, strict=True))
    while len(rest) >= USUAL.most // 2:
        yield taken(trial, rest[: USUAL.most])
        rest = rest[USUAL.most :]


def taken(
    trial: Trial, batches: Sequence[tuple[Batch, Batch]], starts: Starts = USUAL
) -> tuple[Measurement, Measurement]:
    """What a measurement would have been that met these batches in turn."""
    for count in range(1, len(batches) + 1):
        numbered = [(replace(old, start=n), replace(new, start=n)) for n, (old, new) in enumerate(batches[:count])]
        before, after = zip(*numbered, strict=True)
        if enough(starts, count, settled(before, after, True)):
            break
    return replace(trial.before, batches=tuple(before)), replace(trial.after, batches=tuple(after))


def drawn(alike: Sequence[Trial]) -> float:
    """Share that fails of measurements made of starts drawn at random, again and again, from all that there are.

    Of equal sides each start may as well have had them the other way round, and so is drawn either way. Otherwise what
    the mean of these few starts happens to be would count as a difference of the two sides.
    """
    rng = random.Random(_SEED)
    batches = [pair for trial in alike for pair in zip(trial.before.batches, trial.after.batches, strict=True)]
    failed = 0
    for _ in range(_DRAWS):
        chosen = rng.choices(batches, k=USUAL.most)
        if not alike[0].slower:
            chosen = [(new, old) if rng.random() < 0.5 else (old, new) for old, new in chosen]
        failed += verdict(*taken(alike[0], chosen)) is Outcome.FAIL
    return failed / _DRAWS


def verdict(before: Measurement, after: Measurement) -> Outcome:
    return overall(compare([before], [after])).outcome


def computed() -> Table:
    """What the rule does with starts whose ratios are normal, by how far they spread."""
    made = Table(title=f"{_DRAWS} draws each")
    for column in ("spread of a start", "starts at most", "false alarms", "10 % found", "starts taken"):
        made.add_column(column)
    for spread in _SPREADS:
        for most in (Starts().most, USUAL.most):
            equal, slower = (rates(spread, factor, most) for factor in (1.0, 1.1))
            made.add_row(f"{spread:.0%}", str(most), f"{equal[0]:.1%}", f"{slower[0]:.1%}", f"{equal[1]:.0f}")
    return made


def rates(spread: float, factor: float, most: int, draws: int = _DRAWS) -> tuple[float, float]:
    """Share of measurements that fail, and the starts that one takes; normal logarithms of what a start has.

    factor: by how much the second side is dearer. spread: standard deviation of a start's ratio.
    """
    rng, starts = random.Random(_SEED), replace(USUAL, most=most)
    failed = used = 0
    for _ in range(draws):
        batches = [(batch(1.0), batch(factor * math.exp(rng.gauss(0, spread)))) for _ in range(most)]
        before, after = taken(BLANK, batches, starts)
        failed += verdict(before, after) is Outcome.FAIL
        used += len(before.batches)
    return failed / draws, used / draws


def batch(cost: float) -> Batch:
    """One start in which the primary spends `cost` for each second of the client."""
    costs = {Role.PRIMARY: {Resource.CPU_USER_S: cost}, Role.CLIENT: {Resource.CPU_USER_S: 1.0}}
    return Batch(1e6, USUAL.load_s, 16, costs)


def _blank() -> Trial:
    exact = {role: {Resource.CPU_USER_S: Interval(1.0, 1.0, 1.0, 2)} for role in (Role.PRIMARY, Role.CLIENT)}
    demand = Demand(Operation("randread", 4096), DEFAULT_RELEASE, Arch.X86_64, "image", exact)
    alike = {"cpu": "any", "provider": "any", "disks": "any", PAIR: "computed", CALIBRATED: "yes"}
    side = Measurement(demand, conditions=alike)
    return Trial("computed", "randread", False, False, side, side)


BLANK = _blank()


if __name__ == "__main__":
    main(sys.argv[1:])
