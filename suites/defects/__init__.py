"""Defects of Ceph that were found: each is looked for again on every release, by the smallest program that shows it."""

from cephlab.suites.defects import rare, shown

SCENARIOS = (*shown.SCENARIOS, *rare.SCENARIOS)
