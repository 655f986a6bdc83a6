"""Scale models: declared clusters, scaled down and run on a laptop, to check the model's rate and bottleneck."""

from pathlib import Path

from cephlab.suites.scale.model import scenario_for
from cephlab.tuning.profilefile import load_hardware

PROFILES = Path(__file__).with_name("profiles")

SCENARIOS = tuple(
    scenario_for(hardware, requirement)
    for hardware in (load_hardware(path) for path in sorted(PROFILES.glob("*.toml")))
    for requirement in hardware.requirements
)
"""Three declared clusters: bound by CPU, by disks and by their network."""
