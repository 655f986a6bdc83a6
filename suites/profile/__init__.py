"""What hardware is wanted for: each requirement of the run's profile, predicted, or measured where its machines are."""

from cephlab.lab.scenario.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = ()
"""None without a profile: `wanted.scenarios_of` makes one of each of its requirements."""
