"""Subnets and addresses for a run's own network, on a bridge of any provider."""

import hashlib
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cephlab.lab.base.errors import LabBroken, SpecError

POOL = ipaddress.IPv4Network("10.77.0.0/16")
FIRST_ADDRESS = 10  # the gateway has .1; the others below are for what tests add to the network
_ROUTES = Path("/proc/net/route")
_ATTEMPTS = 16


def free_subnets(run_id: str, taken: Iterable[str]) -> Iterator[ipaddress.IPv4Network]:
    """The pool's /24 networks that overlap none of `taken` (CIDR texts; those that are not IPv4 are ignored).

    Each run starts at another place in the pool, so that two runs that start together rarely try the same subnet.
    """
    used = [network for network in map(_ipv4, taken) if network is not None]
    pool = list(POOL.subnets(new_prefix=24))
    begin = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:2], "big") % len(pool)
    for subnet in pool[begin:] + pool[:begin]:
        if not any(subnet.overlaps(network) for network in used):
            yield subnet


def on_free_subnet(
    run_id: str, taken: Iterable[str], make: Callable[[ipaddress.IPv4Network], None]
) -> ipaddress.IPv4Network:
    """Make a network on the first free subnet that the engine accepts; LabBroken when the pool has none.

    make: raises LabBroken when the engine refuses the subnet; then the next one is tried.
    """
    refusals = []
    for subnet in free_subnets(run_id, taken):
        try:
            make(subnet)
        except LabBroken as error:
            # Another run was faster, or neither the engine nor the routes show that the subnet is in use.
            refusals.append(f"{subnet}: {error.detail}")
            if len(refusals) == _ATTEMPTS:
                break
        else:
            return subnet
    raise LabBroken(f"no network for the run could be made from {POOL}", "\n".join(refusals), "run `cephlab prune`")


def free_address(subnet: ipaddress.IPv4Network, used: Iterable[str]) -> str:
    """The first unused node address of the subnet; SpecError if none is left (a /24 has 245)."""
    taken = set(used)
    for address in list(subnet.hosts())[FIRST_ADDRESS - 1 :]:
        if str(address) not in taken:
            return str(address)
    raise SpecError(f"{subnet} has no address for another node", f"{len(taken)} are in use", "ask for fewer nodes")


def mac_address(address: str) -> str:
    """A node's MAC address, made from its IPv4 address so that neighbours recognise it after a restart."""
    return "02:42:" + ipaddress.IPv4Address(address).packed.hex(":")


def routed_here() -> list[str]:
    """IPv4 networks that this machine has routes to."""
    return routed_networks(_ROUTES.read_text()) if _ROUTES.exists() else []


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
