"""What is planted is there, and is to be found by scenarios that there are."""

from __future__ import annotations

from cephlab.suites.interop import SCENARIOS
from tests.planted import HERE, PLANTED


def test_planted_defects_are_to_be_found_by_scenarios_that_there_are() -> None:
    known = {scenario.name for scenario in SCENARIOS}
    for defect in PLANTED:
        assert (HERE / defect.source).is_file()
        assert defect.finds
        assert set(defect.finds) <= known
