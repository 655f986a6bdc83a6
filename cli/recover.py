"""`cephlab predict --recover`: how long a profile's cluster takes to copy a lost node, and what it is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cephlab.lab.base.errors import SpecError

if TYPE_CHECKING:
    from cephlab.lab.telemetry.demand import Demand
    from cephlab.tuning.limits import Limit
    from cephlab.tuning.profile import Profile
    from cephlab.tuning.recovery import Recovery


@dataclass(frozen=True)
class Recovered:
    """made: the prediction for `profile`; limit: the most that hardware of it may take."""

    profile: str
    made: Recovery
    limit: Limit

    def lines(self) -> list[str]:
        """For a reader: the time, what decides it, the limit, and every step."""
        return [
            f"{self.profile}: a lost node is copied again in {self.made.seconds:,.0f} s, limit: {self.made.limit}; "
            f"on the hardware at most {self.limit.high:,.0f} s",
            *(f"  {line}" for line in self.limit.derivation.lines()),
        ]

    def as_value(self) -> dict[str, Any]:
        """As JSON values; seconds."""
        return {
            "profile": self.profile,
            "seconds": self.made.seconds,
            "limited_by": self.made.limit,
            "at_most_s": self.limit.high,
            "derivation": self.limit.derivation.lines(),
        }


def recovered(
    text: str, demands: Sequence[Demand], profile: Profile, find: Callable[[str], Profile], *, k: int = 0
) -> Recovered | None:
    """The time to recover a node that held `text` ("4500 GB"); None for no text, SpecError where it is no size.

    k: of an erasure code, 0 for copies.
    """
    if not text:
        return None
    from cephlab.tuning.limits import recovery_limit, supported_factor
    from cephlab.tuning.recovery import recovery_time
    from cephlab.tuning.references import FigureKind
    from cephlab.tuning.units import Measure, parse

    try:
        data_bytes = parse(text, Measure.BYTES)
    except ValueError as error:
        raise SpecError(f"--recover: {text!r} is not a number of bytes", f"wanted: {error}") from None
    made = recovery_time(profile, data_bytes, k=k)
    factor = supported_factor(demands, (FigureKind.RECOVERY,), find)
    return Recovered(profile.name, made, recovery_limit(made, factor))
