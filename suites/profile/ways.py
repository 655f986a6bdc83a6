"""How each kind of requirement is measured where the machines are; what is not measured there stays predicted."""

from collections.abc import Callable
from dataclasses import dataclass

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.profile.lost import lost, unfit
from cephlab.suites.profile.measured import Measured, Seen, load_of, measure
from cephlab.suites.profile.plug import under_load
from cephlab.suites.profile.room import room
from cephlab.tuning.held import Trust
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import (
    CapacityRequirement,
    LoadRequirement,
    ObjectsRequirement,
    PowerRequirement,
    RecoveryRequirement,
    Requirement,
)

OBJECTS = (
    "what a sample of objects adds to RocksDB is less than its logs and compactions move, gigabytes on each OSD, and "
    "nothing spills before billions"
)


@dataclass(frozen=True)
class Way:
    """method: a sentence; measure: what was seen, or a sentence on why nothing was, so that the prediction stands."""

    method: str
    measure: Callable[[Stage, Profile, Trust], Measured | Seen | str]


def way_of(requirement: Requirement) -> Way | str:
    """How a requirement is measured; why it is not."""
    match requirement:
        case LoadRequirement():
            load = load_of(requirement)
            if isinstance(load, str):
                return load
            return Way(
                "Runs it with fio from all client machines at once.",
                lambda stage, profile, _trust: measure(stage, requirement, load, profile),
            )
        case PowerRequirement():
            return Way(
                "Reads watts at the plug while all client machines write.",
                lambda stage, profile, _trust: under_load(stage, profile),
            )
        case CapacityRequirement():
            return Way(
                "Makes a pool and reads how its PGs fill each OSD.",
                lambda stage, profile, _trust: permitted(lambda: room(stage, profile, requirement)),
            )
        case RecoveryRequirement():
            return unfit(requirement) or Way(
                "Writes a sample, stops OSDs of the largest machines, marks them out, and looks how fast it is copied.",
                lambda stage, profile, trust: permitted(lambda: lost(stage, profile, trust, requirement)),
            )
        case ObjectsRequirement():
            return OBJECTS


def permitted(measure: Callable[[], Seen | str]) -> Seen | str:
    """What was seen; why nothing was, where the list of an attached cluster, or a machine, does not allow it."""
    try:
        return measure()
    except Unavailable as lack:
        return f"{lack.what}; {lack.hint}" if lack.hint else lack.what
