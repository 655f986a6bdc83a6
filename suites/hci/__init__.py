"""Guests on the cluster's own machines: QEMU's librbd driver and its cache modes, and krbd beside librbd."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.hci import krbd, papers, power

SCENARIOS: tuple[Scenario, ...] = (*power.SCENARIOS, *krbd.SCENARIOS, *papers.SCENARIOS)
