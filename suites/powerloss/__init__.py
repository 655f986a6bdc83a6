"""Machines lose power: acknowledged writes survive, and stores are clean."""

from cephlab.suites.powerloss import cut, replayed

SCENARIOS = (*cut.SCENARIOS, *replayed.SCENARIOS)
