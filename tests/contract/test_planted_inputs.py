"""Defects planted into one architecture's programs: the scenarios that are named for each go red, and say where."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cephlab.lab.base.errors import CephTrouble, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome, Verdict
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario, seeded, verdict_of
from cephlab.lab.scenario.topology import PLAIN
from cephlab.suites import interop
from tests.contract.planting import planted
from tests.contract.raising import raised
from tests.planted import PLANTED, Planted

pytestmark = pytest.mark.real

KNOWN: Mapping[str, Scenario] = {scenario.name: scenario for scenario in interop.SCENARIOS}
QUICKEST = ("parity_14th",)
"""Found within a minute; `tox -e planted` has all."""


def outcome(scenario: Scenario, cluster: Cluster, scratch: Path) -> Verdict:
    """What a run would say, also where Ceph itself broke on the way."""
    recorder = History().recorder(scenario.name)
    try:
        return run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), scratch))
    except CephTrouble:
        return verdict_of(recorder.events())


@pytest.mark.parametrize(
    ("defect", "name"),
    [pytest.param(each, each.finds[0], id=each.name) for each in PLANTED if each.name in QUICKEST],
)
def test_a_planted_defect_is_found(defect: Planted, name: str, home: Home, tmp_path: Path) -> None:
    """In a cluster of its own: what one scenario leaves of a broken one says nothing of the next."""
    try:
        with planted(defect, tmp_path), raised(LocalProvider(), PLAIN, home) as cluster:
            verdict = outcome(KNOWN[name], cluster, tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    assert verdict.outcome is Outcome.FAIL, verdict
