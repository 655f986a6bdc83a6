"""The NVMe-oF suite turns red over no fence, over a gateway that keeps what it should write, and over no digests."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.blockstack.nvmeof import AnaState, Volume
from cephlab.lab.blockstack.nvmet import KernelGateway
from cephlab.lab.blockstack.nvmet_program import NAMESPACE, TARGET
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.nodes import KillNode
from cephlab.lab.history.history import History
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario, seeded
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.nvmeof import stand
from cephlab.suites.nvmeof.failover import failed_over
from cephlab.suites.nvmeof.faults import IsolateNode
from cephlab.suites.nvmeof.stand import IMAGE_BYTES, NODES, TOPOLOGY
from cephlab.suites.nvmeof.wire import WRONG_DIGEST, over_bad_wires
from tests.contract.raising import raised

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

FIRST = host_arch().other
KEEP = (
    "import os, sys\n"
    "folder, size = sys.argv[1], int(sys.argv[2])\n"
    "os.truncate(os.open('/dev/shm/kept', os.O_CREAT | os.O_RDWR), size)\n"
    "for name, value in (('enable', '0'), ('buffered_io', '1'), ('device_path', '/dev/shm/kept'), ('enable', '1')):\n"
    "    open(f'{folder}/{name}', 'w').write(value)\n"
)


class Keeper(KernelGateway):
    """Keeps in its memory what it acknowledges."""

    def serve(self, volume: Volume, state: AnaState) -> None:
        super().serve(volume, state)
        folder = TARGET / "subsystems" / volume.nqn / "namespaces" / NAMESPACE
        self.host.run(["python3", "-c", KEEP, str(folder), str(IMAGE_BYTES)])


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    with raised(PROVIDERS["qemu"](), TOPOLOGY, home) as cluster:
        yield cluster


def reasons(scenario: Scenario, cluster: Cluster, scratch: Path) -> tuple[Outcome, str, Outcome]:
    """(verdict, what `survival` says, what it comes to) of a scenario on this cluster."""
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), scratch))
    survival = CHECKS["survival"](recorder.events())
    return verdict.outcome, survival.reason, survival.outcome


def test_a_pair_that_is_not_fenced_loses_what_its_twin_acknowledged(cluster: Cluster, tmp_path: Path) -> None:
    run = partial(failed_over, fault=IsolateNode(NODES[FIRST]), first=FIRST, fenced=False)
    outcome, reason, survival = reasons(Scenario("nvmeof.unfenced", "", "", run, check="recorded"), cluster, tmp_path)
    assert (outcome, survival) == (Outcome.FAIL, Outcome.FAIL)
    assert "lost" in reason or "stale" in reason


def test_a_gateway_that_acknowledges_and_does_not_write_is_found(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand, "KernelGateway", Keeper)
    run = partial(failed_over, fault=KillNode(NODES[FIRST]), first=FIRST)
    outcome, reason, survival = reasons(Scenario("nvmeof.keeper", "", "", run, check="recorded"), cluster, tmp_path)
    assert (outcome, survival) == (Outcome.FAIL, Outcome.FAIL)
    assert "lost" in reason or "stale" in reason


@pytest.mark.parametrize(("digests", "wanted"), [(True, Outcome.PASS), (False, Outcome.FAIL)], ids=["on", "off"])
def test_a_bit_that_flips_on_the_wire_arrives_only_without_digests(
    cluster: Cluster, tmp_path: Path, *, digests: bool, wanted: Outcome
) -> None:
    run = partial(over_bad_wires, first=FIRST, digests=digests)
    scenario = Scenario("nvmeof.bare-wire", "", "", run, check="witnessed", expects=WRONG_DIGEST)
    outcome, _, _ = reasons(scenario, cluster, tmp_path)
    assert outcome is wanted
