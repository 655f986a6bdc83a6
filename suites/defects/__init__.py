"""Known Ceph defects: each is looked for again on every release, with the smallest program that shows it."""

from cephlab.suites.defects import rare, shown

SCENARIOS = (*shown.SCENARIOS, *rare.SCENARIOS)
