"""How long a stress run lasts, and how often it takes readings: a run of days keeps no more than one of minutes."""

from collections.abc import Mapping
from dataclasses import dataclass

from cephlab.lab.scenario.scenario import Tier
from cephlab.suites.asked import minutes

MINUTES_VARIABLE = "CEPHLAB_STRESS_MINUTES"
"""Environment variable with the length of a run in minutes, instead of the tier's: 360 is six hours."""
MINUTES: Mapping[Tier, float] = {Tier.QUICK: 2.0, Tier.FULL: 30.0}

READINGS = 150
"""Readings of every run, whatever its length: the check compares a few hundred samples, and memory stays bounded."""
LEAST_LEFT = 40
"""Fewest looks for the rest of a run that was interrupted near its end."""
LEAST_EVERY_S = 0.4
"""A look at a cluster of three OSDs takes about a fifth of this."""


@dataclass(frozen=True)
class Length:
    """seconds: of judged load; every_s: between two looks."""

    seconds: float
    every_s: float

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    def after(self, seconds: float) -> "Length":
        """The rest after this many seconds, with looks as frequent as before, and enough of them to be judged."""
        return Length(max(self.seconds - seconds, LEAST_LEFT * self.every_s), self.every_s)


def length_of(seconds: float) -> Length:
    return Length(seconds, max(LEAST_EVERY_S, seconds / READINGS))


def lasts_s(tier: Tier) -> float:
    """Seconds of load."""
    return 60 * minutes(MINUTES_VARIABLE, MINUTES[tier])
