"""Guests on cluster machines: QEMU's librbd driver and its cache modes, and krbd compared with librbd."""

from cephlab.suites.hci import krbd, papers, power, writeback

SCENARIOS = (*power.SCENARIOS, *krbd.SCENARIOS, *papers.SCENARIOS, *writeback.SCENARIOS)
