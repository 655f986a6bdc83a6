"""Checks: pure functions that turn a recorded history into a verdict. None of them needs a cluster."""

from collections.abc import Callable, Mapping, Sequence

from cephlab.lab.checks.defect import defect
from cephlab.lab.checks.drift import drift
from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.gtest import gtest
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.recorded import recorded
from cephlab.lab.checks.regression import regression
from cephlab.lab.checks.service import service
from cephlab.lab.checks.survival import survival
from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.checks.witnessed import witnessed
from cephlab.lab.history.history import Event

Check = Callable[[Sequence[Event]], Verdict]

_ALL = (defect, observations, witnessed, gtest, figures, recorded, regression, service, survival, drift)
CHECKS: Mapping[str, Check] = {check.__name__: check for check in _ALL}

READ_WITNESSES = {"witnessed", "gtest", "figures", "recorded", "drift"}
"""Checks that judge the witnesses themselves. For all other checks, `lab/scenario/scenario.py` judges them."""

__all__ = ["CHECKS", "READ_WITNESSES", "Check", "Outcome", "Verdict", "merge"]
