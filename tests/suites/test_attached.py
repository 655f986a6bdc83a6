"""An existing cluster of one architecture is refused to what is about two, and to nothing else for that reason."""

import re
from pathlib import Path

import pytest

from cephlab.fixtures.attaching import unfit
from cephlab.fixtures.selection import not_here
from cephlab.lab.scenario.scenario import Scenario
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, ClusterSpec, Disk, Node, Osd
from cephlab.lab.spec.inventory import Inventory, Machine, Role
from tests.suites.test_declared_suites import scenarios

ROOT = Path(__file__).resolve().parents[2]
MACHINES = 6
CLIENTS = 4

ABOUT_TWO = {
    "interop": "All of it shows that two architectures work together.",
    "cephtests": "It is about both architectures, mostly with primaries of the other.",
    "resilience.osd-failure[nodes=1+2]": "The other architecture has the majority.",
}
"""Suites and scenarios that run on an existing cluster only if it is mixed, and why."""


def existing(*archs: Arch) -> tuple[ClusterSpec, Inventory]:
    """A cluster with more than any scenario needs, with machines of these architectures in turn."""
    nodes = []
    for number in range(MACHINES):
        disks = tuple(Disk(f"osd-{osd}") for osd in (2 * number, 2 * number + 1))
        osds = tuple(Osd(disk.name) for disk in disks)
        arch = archs[number % len(archs)]
        nodes.append(Node(f"n{number}", arch, disks, osds, mon=number < 3, mgr=number == 0))
    clients = tuple(
        Machine(f"c{number}", f"c{number}", f"192.0.2.{number}", archs[number % len(archs)], frozenset({Role.CLIENT}))
        for number in range(CLIENTS)
    )
    return ClusterSpec(tuple(nodes), release=DEFAULT_RELEASE), Inventory(Path("inventory.toml"), clients)


def served(*archs: Arch) -> dict[str, Scenario]:
    """The scenarios that a cluster of machines of these architectures serves."""
    spec, there = existing(*archs)
    return {
        scenario.name: scenario
        for scenario in scenarios()
        if not_here(scenario, DEFAULT_RELEASE, attached=True) is None
        and not unfit(scenario.topology, scenario.needs, spec, there)
    }


@pytest.mark.slow
@pytest.mark.parametrize("arch", list(Arch))
def test_one_architecture_is_refused_only_to_what_is_about_two(arch: Arch) -> None:
    alike, mixed = served(arch), served(*Arch)
    assert alike.keys() < mixed.keys()
    refused = [mixed[name] for name in sorted(mixed.keys() - alike.keys())]
    assert {each.suite if each.suite in ABOUT_TWO else each.name for each in refused} == ABOUT_TWO.keys()
    assert not [each for each in alike.values() if each.suite in ABOUT_TWO]
    suites = {each.suite for each in alike.values()}
    assert {"baseline", "block", "hci", "job", "nvmeof", "resilience", "standing", "stress"} <= suites


@pytest.mark.slow
def test_the_page_names_the_suites_of_which_no_existing_cluster_serves_a_scenario() -> None:
    page = (ROOT / "docs" / "attach.md").read_text()
    [said] = re.findall(r"\*\*Suites that need a lab\.\*\*(.*?)\. ", page, re.DOTALL)
    suites = {scenario.suite for scenario in scenarios()}
    assert set(re.findall(r"`(.+?)`", said)) == suites - {each.suite for each in served(*Arch).values()}


@pytest.mark.slow
def test_what_one_architecture_serves_is_mixed_in_a_lab() -> None:
    """Otherwise `any_arch` would say nothing."""
    free = [scenario for scenario in scenarios() if scenario.topology.any_arch and scenario.topology.foreign]
    assert {"baseline", "hci", "nvmeof", "powerloss", "resilience", "stress"} <= {scenario.suite for scenario in free}
    for scenario in free:
        spec = scenario.topology.spec(DEFAULT_RELEASE)
        assert {node.arch for node in spec.nodes if node.osds} == set(Arch), scenario.name
