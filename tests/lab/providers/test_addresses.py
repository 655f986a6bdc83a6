"""Subnets and addresses of a run's own network, without one."""

import ipaddress

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.providers import addresses

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


def test_a_subnet_is_taken_that_nothing_uses() -> None:
    first = next(addresses.free_subnets("r1", []))
    assert first.subnet_of(addresses.POOL)
    assert first.prefixlen == 24
    second = next(addresses.free_subnets("r1", [str(first)]))
    assert not second.overlaps(first)


@pytest.mark.parametrize("taken", ["10.77.0.0/16", "10.0.0.0/8", "0.0.0.0/0"])
def test_a_network_over_the_whole_pool_leaves_none(taken: str) -> None:
    assert list(addresses.free_subnets("r1", [taken])) == []


def test_every_subnet_but_the_overlapping_ones_is_offered_once() -> None:
    offered = list(addresses.free_subnets("r1", ["10.77.4.0/22", "10.77.200.7/32", "192.168.0.0/16"]))
    assert len(offered) == len(set(offered)) == 256 - 4 - 1


def test_networks_that_are_not_ipv4_are_passed_over() -> None:
    assert next(addresses.free_subnets("r1", ["fd00::/64", "not a network"])) == next(addresses.free_subnets("r1", []))


def test_runs_begin_at_different_places() -> None:
    firsts = {next(addresses.free_subnets(f"r{number}", [])) for number in range(20)}
    assert len(firsts) > 10
    assert next(addresses.free_subnets("r1", [])) == next(addresses.free_subnets("r1", []))


@pytest.mark.slow
def test_addresses_leave_room_for_the_gateway_and_differ() -> None:
    subnet = ipaddress.IPv4Network("10.77.9.0/24")
    used: list[str] = []
    for _ in range(245):
        used.append(addresses.free_address(subnet, used))
    assert used[:2] == ["10.77.9.10", "10.77.9.11"]
    assert used[-1] == "10.77.9.254"
    assert len(set(used)) == 245


def test_an_address_that_became_free_is_given_again() -> None:
    subnet = ipaddress.IPv4Network("10.77.9.0/24")
    assert addresses.free_address(subnet, ["10.77.9.10", "10.77.9.12"]) == "10.77.9.11"


def test_a_full_network_is_refused_in_words() -> None:
    subnet = ipaddress.IPv4Network("10.77.9.0/28")
    with pytest.raises(SpecError, match="no address for another node"):
        addresses.free_address(subnet, [f"10.77.9.{number}" for number in range(10, 15)])


def test_routes_are_read_without_the_default_one() -> None:
    assert addresses.routed_networks(ROUTES) == ["192.168.2.0/24", "172.17.0.0/16"]


def test_a_nodes_hardware_address_follows_from_its_own() -> None:
    assert addresses.mac_address("10.77.250.16") == "02:42:0a:4d:fa:10"
