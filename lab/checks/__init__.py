"""Pure functions from a recorded history to a verdict; none of them ever sees a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lab.checks.figures import figures
from lab.checks.gtest import gtest
from lab.checks.observations import observations
from lab.checks.recorded import recorded
from lab.checks.regression import regression
from lab.checks.service import service
from lab.checks.survival import survival
from lab.checks.verdict import Outcome, Verdict, merge
from lab.checks.witnessed import witnessed
from lab.history import Event

Check = Callable[[Sequence[Event]], Verdict]

CHECKS: Mapping[str, Check] = {
    "observations": observations,
    "witnessed": witnessed,
    "gtest": gtest,
    "figures": figures,
    "recorded": recorded,
    "regression": regression,
    "service": service,
    "survival": survival,
}

__all__ = ["CHECKS", "Check", "Outcome", "Verdict", "merge"]
