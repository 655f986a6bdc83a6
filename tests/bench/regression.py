"""False alarms and detections of regression verdicts, by experiment: `tox -e regression -- PAIRS [OPERATION...]`."""

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
from cephlab.lab.telemetry.compare import compare, overall, settled
from cephlab.lab.telemetry.demand import CPU, OSD_ROLES, Role
from cephlab.lab.telemetry.demandfile import Batch, Measurement
from cephlab.lab.telemetry.plan import cost_of
from cephlab.lab.telemetry.side_by_side import Starts, enough
from tests.bench import trials
from tests.bench.trials import Trial

_OPERATIONS = ("randwrite", "randread")
_DRAWS = 500
_SEED = 1


def main(arguments: Sequence[str]) -> None:
    """Measure so many new pairs of clusters, then judge every pair that was ever measured here."""
    home = default_home().ensure()
    count = int(arguments[0]) if arguments else 1
    for _ in range(count):
        for operation in arguments[1:] or _OPERATIONS:
            trials.make(home, operation, print)
    found = trials.known(home)
    console = Console(width=140)
    for operation in sorted({trial.operation for trial in found}):
        console.print(table(operation, [trial for trial in found if trial.operation == operation]))


def table(operation: str, found: Sequence[Trial]) -> Table:
    """Verdicts of disjoint runs of starts as a user's measurement would have taken them, and of random ones."""
    pairs = len({trial.pair for trial in found})
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
            alike = [trial for trial in found if (trial.slower, trial.neighbours) == (slower, busy)]
            logs = [value for trial in alike for value in steps(trial.before, trial.after)]
            if len(logs) < 2:
                continue
            counted = Counter(overall(compare([one], [two])).outcome for trial in alike for one, two in cut(trial))
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
        [cost_of(one.costs, OSD_ROLES, CPU) / cost_of(one.costs, (Role.CLIENT,), CPU) for one in side.batches]
        for side in (before, after)
    ]
    return [math.log(two / one) for one, two in zip(*sides, strict=True)]


def cut(trial: Trial) -> Iterator[tuple[Measurement, Measurement]]:
    """One measurement after the other out of a trial's starts, each ended when it would have been.

    A rest of half of what a measurement takes is one too, of less time.
    """
    rest = list(zip(trial.before.batches, trial.after.batches, strict=True))
    while len(rest) >= Starts().most // 2:
        yield taken(trial, rest[: Starts().most])
        rest = rest[Starts().most :]


def taken(trial: Trial, batches: Sequence[tuple[Batch, Batch]]) -> tuple[Measurement, Measurement]:
    """What a measurement would have been that met these batches in turn."""
    for count in range(1, len(batches) + 1):
        numbered = [(replace(one, start=n), replace(two, start=n)) for n, (one, two) in enumerate(batches[:count])]
        before, after = zip(*numbered, strict=True)
        if enough(Starts(), count, settled(before, after, True)):
            break
    return replace(trial.before, batches=tuple(before)), replace(trial.after, batches=tuple(after))


def drawn(alike: Sequence[Trial]) -> float:
    """Share that fails of measurements made of starts drawn at random, again and again, from all that there are."""
    rng = random.Random(_SEED)
    batches = [pair for trial in alike for pair in zip(trial.before.batches, trial.after.batches, strict=True)]
    failed = 0
    for _ in range(_DRAWS):
        one, two = taken(alike[0], rng.choices(batches, k=Starts().most))
        failed += overall(compare([one], [two])).outcome is Outcome.FAIL
    return failed / _DRAWS


if __name__ == "__main__":
    main(sys.argv[1:])
