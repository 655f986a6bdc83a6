"""What the NVMe-oF suite says of a gap that is too long, of a stranger who is let in and of a pair as it stands."""

import pytest

from cephlab.lab.blockstack.initiator import Connecting
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.faults.fault import EVENT
from cephlab.lab.history import operations
from cephlab.lab.history.history import History
from cephlab.lab.history.operations import Act, Ended, Operation
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability
from cephlab.suites.nvmeof import SCENARIOS, failover
from cephlab.suites.nvmeof.stand import INITIATOR, NODES, TOPOLOGY
from tests.fake_clock import VirtualClock


def operation(version: int, act: Act, began_s: float, took_s: float) -> Operation:
    return Operation("load", "c0", 0, act, 0, version, began_s, began_s + took_s, Ended.OK)


def verdict_of(gap_s: float, took_s: float) -> Outcome:
    """Of a load that waits once, from 9.7 s on: the fault came at 10 s, and was there a second later."""
    clock = VirtualClock()
    recorder = History(clock=clock).recorder("nvmeof.topic")
    for at_s, phase in ((10.0, "inflicting"), (11.0, "broken")):
        clock.now = at_s
        recorder.record(EVENT, fault="f", target="t", nodes=[], phase=phase)
    done = [operation(1, Act.WRITE, 9.0, 0.5), operation(1, Act.READ, 9.6, 0.1), operation(2, Act.WRITE, 9.7, gap_s)]
    for data in operations.pack([*done, operation(2, Act.FINAL, 99.0, 0.1)]):
        recorder.record(operations.EVENT, **data)
    recorder.witness("load", got=1, least=1)
    failover.noticed_in_time(recorder, Connecting(keep_alive_s=4, reconnect_s=2), 11.0 + took_s)
    return CHECKS["service"](recorder.events()).outcome


@pytest.mark.parametrize(
    ("gap_s", "took_s", "outcome"),
    [
        (9.0, 1.0, Outcome.PASS),  # 1 of breaking, 6 to notice, 2 to reconnect, 0.5 as usual
        (9.8, 1.0, Outcome.FAIL),
        (9.8, 7.0, Outcome.PASS),  # the twin took longer than the keep-alive
    ],
)
def test_a_gap_is_held_to_the_settings_in_force(gap_s: float, took_s: float, outcome: Outcome) -> None:
    assert verdict_of(gap_s, took_s) is outcome


def test_gateways_and_initiator_have_machines_of_their_own() -> None:
    nodes = {node.name: node for node in TOPOLOGY.spec(DEFAULT_RELEASE).nodes}
    assert {arch: nodes[name].arch for arch, name in NODES.items()} == {arch: arch for arch in Arch}
    assert nodes[INITIATOR].arch is host_arch()
    assert not any(nodes[name].has_daemons for name in (INITIATOR, *NODES.values()))
    assert TOPOLOGY.made


def test_every_scenario_asks_for_a_kernel_that_has_it() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS) >= 7
    assert all(Capability.FABRICS in scenario.needs for scenario in SCENARIOS)
    assert {scenario.suite for scenario in SCENARIOS} == {"nvmeof"}
    assert any(scenario.tier is Tier.QUICK for scenario in SCENARIOS)
