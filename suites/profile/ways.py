"""How each kind of requirement is measured where the machines exist; kinds that are not measured stay predicted."""

from collections.abc import Callable
from dataclasses import dataclass

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.profile.lost import lost, unfit
from cephlab.suites.profile.measured import Measured, Seen, load_of, measure
from cephlab.suites.profile.objects import measure_objects, unmade
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
    "RocksDB's logs and compactions move gigabytes on each OSD, more than a sample of objects adds, and metadata "
    "spills only after billions of objects"
)


@dataclass(frozen=True)
class Way:
    """method: a sentence; measure: returns what was seen, or a sentence on why nothing was seen."""

    method: str
    measure: Callable[[Stage, Profile, Trust], Measured | Seen | str]


def way_of(requirement: Requirement) -> Way | str:
    """How a requirement is measured, or why it is not."""
    match requirement:
        case LoadRequirement():
            return _load_way(requirement)
        case PowerRequirement():
            return Way(
                "Reads watts at the plug while all client machines write.",
                lambda stage, profile, _trust: under_load(stage, profile),
            )
        case CapacityRequirement():
            return Way(
                "Creates a pool and reads how its PGs fill each OSD.",
                lambda stage, profile, _trust: permitted(lambda: room(stage, profile, requirement)),
            )
        case RecoveryRequirement():
            return unfit(requirement) or Way(
                "Writes a sample, stops the OSDs of the largest machines, marks them out, and times its recovery.",
                lambda stage, profile, trust: permitted(lambda: lost(stage, profile, trust, requirement)),
            )
        case ObjectsRequirement():
            return OBJECTS


def _load_way(requirement: LoadRequirement) -> Way | str:
    if requirement.shapes[0][1].through_gateway:
        return unmade(requirement) or Way(
            "Runs S3 clients on all client machines at once, through the endpoints of the inventory.",
            lambda stage, profile, _trust: permitted(lambda: measure_objects(stage, requirement, profile)),
        )
    load = load_of(requirement)
    if isinstance(load, str):
        return load
    return Way(
        "Runs the load with fio on all client machines at once.",
        lambda stage, profile, _trust: measure(stage, requirement, load, profile),
    )


def permitted(measure: Callable[[], Measured | Seen | str]) -> Measured | Seen | str:
    """What was seen, or why nothing was: an attached cluster's list, or a machine, does not allow it."""
    try:
        return measure()
    except Unavailable as lack:
        return f"{lack.what}; {lack.hint}" if lack.hint else lack.what
