"""Ceph's own test programs on a cluster whose OSDs refuse an object class: the suite goes red, and names the case."""

from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.cephtests.programs import (
    ALL_CLASSES,
    UpstreamProgram,
    known_on,
    record_run,
    require_programs,
    run_program,
)
from cephlab.suites.interop.matrix import operations
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real

NUMBERS = UpstreamProgram("ceph_test_cls_numops")
HONEST = ALL_CLASSES.options
REFUSING = (("osd_class_load_list", "lock rbd"),)
"""What the manager's own modules need, and no more."""


def numbers_here(stage: Stage) -> None:
    """The suite's way of running a program, within one architecture, which is quicker."""
    cluster, host = stage.cluster, stage.cluster.host_with(host_arch())
    require_programs(cluster, host, [NUMBERS.name])
    before = sum(operations(cluster).values())
    record_run(stage.recorder, run_program(cluster, host, NUMBERS, core=False), known_on(host, cluster.provider_name))
    stage.recorder.witness("operations", got=sum(operations(cluster).values()) - before, least=1)
    stage.recorder.observe("OSDs up", got=cluster.status().osds_up, wanted=len(cluster.osd_ids()))


@pytest.mark.parametrize(
    ("options", "outcome", "said"),
    [(HONEST, Outcome.PASS, NUMBERS.name), (REFUSING, Outcome.FAIL, f"{NUMBERS.name}: ")],
    ids=["honest", "refusing"],
)
def test_osds_that_refuse_a_class_fail_its_cases(
    home: Home, tmp_path: Path, options: tuple[tuple[str, str], ...], outcome: Outcome, said: str
) -> None:
    with raised(LocalProvider(), Topology(native=2, foreign=0, options=options), home) as cluster:
        verdict = verdict_of(Scenario("interop.numops", "", "", numbers_here, check="gtest"), cluster, tmp_path)
    assert verdict.outcome is outcome, verdict
    assert verdict.reason.startswith(said), verdict
