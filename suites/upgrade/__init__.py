"""Upgrades of a mixed cluster: every mix of versions serves older and newer clients, and newer ones read older data."""

from cephlab.suites.upgrade import clients, rolling

SCENARIOS = (*rolling.SCENARIOS, *clients.SCENARIOS)
