"""An object archive on EC 4+2: its use of disk space, how it fills and spills over, and what failures it survives."""

from cephlab.suites.archive import allocation, failures, filled, scrub, spill

SCENARIOS = (*allocation.SCENARIOS, *filled.SCENARIOS, *spill.SCENARIOS, *failures.SCENARIOS, *scrub.SCENARIOS)
