"""Requirements on hardware: each one of the run's profile, predicted, or measured where the machines exist."""

from cephlab.lab.scenario.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = ()
"""Empty without a profile: `wanted.scenarios_of` makes one scenario of each requirement."""
