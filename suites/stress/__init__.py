"""Hours of load on a mixed cluster: what drifts, grows or stops, and what is logged meanwhile."""

from cephlab.suites.stress import mixed, struck

SCENARIOS = (*mixed.SCENARIOS, *struck.SCENARIOS)
