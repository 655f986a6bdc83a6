"""dm-cache between a database and RBD, as in the 2015 paper: its gain, its cost, and what it must not lose."""

from cephlab.suites.dmcache import benefit, correctness, lost, power, settings

SCENARIOS = (
    *correctness.SCENARIOS,
    *power.SCENARIOS,
    *lost.SCENARIOS,
    *benefit.SCENARIOS,
    *settings.SCENARIOS,
)
