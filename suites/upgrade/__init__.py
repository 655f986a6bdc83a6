"""Rolling upgrades of a mixed cluster: every mix of versions serves clients, and newer releases read older data."""

from cephlab.suites.upgrade import rolling

SCENARIOS = rolling.SCENARIOS
