"""An archive of objects at EC 4+2: what it takes of the disks, how it fills, spills over, and what it survives."""

from cephlab.suites.archive import allocation, failures, filled, scrub, spill

SCENARIOS = (*allocation.SCENARIOS, *filled.SCENARIOS, *spill.SCENARIOS, *failures.SCENARIOS, *scrub.SCENARIOS)
