"""Guests on cluster machines: QEMU's librbd driver and its cache modes."""

from cephlab.suites.hci import papers, power, writeback

SCENARIOS = (*power.SCENARIOS, *papers.SCENARIOS, *writeback.SCENARIOS)
