"""`python -m tests.bench.drift [SERIES]`: how often the drift check is wrong over made series, and what it finds.

For each kind of series and each number of samples: the share of sound series whose slope is called a rise, by its
interval of 98 %; and the drift, in standard
deviations of the noise over the run, that is found nine times in ten.
"""

import sys

import numpy as np
from rich.console import Console
from rich.table import Table

from cephlab.lab.checks.trend import Trend, trend
from tests.made_series import KINDS, sound

SAMPLES = (60, 150, 300)
FOUND = 0.9


def trends(kind: str, count: int, number: int) -> list[Trend]:
    """Of sound series over one hour. A drift moves a slope and its interval by itself, so it need not be made."""
    rng = np.random.default_rng(number)
    hours = list(np.arange(count) / count)
    return [trend(hours, list(sound(kind, rng, count))) for _ in range(number)]


def main(argv: list[str]) -> int:
    """The command; its exit code."""
    number = int(argv[0]) if argv else 1000
    shown = Table("series", "samples", "rise without one", "steps seen", "found nine times in ten")
    for kind in KINDS:
        for count in SAMPLES:
            made = trends(kind, count, number)
            wrong = sum(each.low > 0 for each in made) / number
            steps = float(np.mean([len(each.steps) for each in made]))
            rise = -float(np.quantile([each.low for each in made], 1 - FOUND))
            shown.add_row(kind, str(count), f"{wrong:.1%}", f"{steps:.2f}", f"{rise:.1f}")
    Console(width=100).print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
