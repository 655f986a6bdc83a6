"""Subnets and addresses for a run's own network, on a bridge of whichever provider."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator

POOL = ipaddress.IPv4Network("10.77.0.0/16")
FIRST_ADDRESS = 10  # the gateway has .1; the rest below is room for what tests put beside the nodes


def free_subnets(run_id: str, taken: Iterable[str]) -> Iterator[ipaddress.IPv4Network]:
    """The pool's /24 networks that overlap none of `taken` (CIDR texts; others than IPv4 are passed over).

    Each run begins at another place of the pool, so that two that start together rarely want the same one.
    """
    used = [network for network in map(_ipv4, taken) if network is not None]
    pool = list(POOL.subnets(new_prefix=24))
    begin = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:2], "big") % len(pool)
    for subnet in pool[begin:] + pool[:begin]:
        if not any(subnet.overlaps(network) for network in used):
            yield subnet


def free_address(subnet: ipaddress.IPv4Network, used: Iterable[str]) -> str:
    """The first node address of the subnet that is not used; StopIteration cannot happen below 245 nodes."""
    taken = set(used)
    return next(str(address) for address in list(subnet.hosts())[FIRST_ADDRESS - 1 :] if str(address) not in taken)


def mac_address(address: str) -> str:
    """The hardware address of a node: made from its IPv4 address, so that neighbours know it again once it is back."""
    return "02:42:" + ipaddress.IPv4Address(address).packed.hex(":")


def routed_networks(table: str) -> list[str]:
    """IPv4 networks in the text of /proc/net/route, without the default route."""
    networks = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        destination, mask = (int.from_bytes(bytes.fromhex(fields[index]), "little") for index in (1, 7))
        if mask:
            networks.append(str(ipaddress.IPv4Network((destination, mask.bit_count()))))
    return networks


def _ipv4(text: str) -> ipaddress.IPv4Network | None:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return network if isinstance(network, ipaddress.IPv4Network) else None
