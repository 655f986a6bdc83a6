"""What survives when machines lose their power, and not only their daemons."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.powerloss import cut, replayed

SCENARIOS: tuple[Scenario, ...] = (*cut.SCENARIOS, *replayed.SCENARIOS)
