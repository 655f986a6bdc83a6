"""`cephlab predict --recover`: how long a lost node takes to recover; and sizes, written as in profiles or options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.written import size_bytes
from cephlab.tuning.units import Measure, parse

if TYPE_CHECKING:
    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.profile import Profile


@dataclass(frozen=True)
class Recovered:
    """The time to recover a lost node: for people, and as JSON values in seconds."""

    heading: str
    steps: list[str]
    value: dict[str, Any]


def amount(option: str, text: str) -> float:
    """Bytes of "20 TB" as in profiles, or of "4T" as in other options; SpecError if it is not a size."""
    try:
        return parse(text, Measure.BYTES)
    except ValueError:
        if size := size_bytes(text):
            return size
    units = "k, M, G, T and KiB ... EiB in powers of 1024, KB ... EB in powers of 1000"
    raise SpecError(f"{option}: {text!r} is not a size", f"wanted: bytes above 0, or with a unit: {units}", "write 4T")


def recovered(world: World, size: str, demands: Sequence[Demand], profile: Profile, *, k: int) -> Recovered:
    """For a node that held `size` ("4500 GB"); SpecError if it is no size or too much. k: of an erasure code, or 0."""
    from cephlab.tuning.limits import recovery_factor, recovery_limit
    from cephlab.tuning.recovery import recovery_time, refuse_more_than_a_node

    data_bytes = amount("--recover", size)
    refuse_more_than_a_node(profile, data_bytes, "--recover")
    time = recovery_time(profile, data_bytes, k=k)
    limit = recovery_limit(time, recovery_factor(demands, world.profile))
    steps = limit.derivation.lines()
    heading = (
        f"{profile.name}: a lost node is recovered in {time.seconds:,.0f} s, limit: {time.limit}; "
        f"on the hardware in at most {limit.high:,.0f} s"
    )
    value = {"profile": profile.name, "seconds": time.seconds, "limited_by": time.limit, "at_most_s": limit.high}
    return Recovered(heading, steps, {**value, "derivation": steps})
