"""A subnet for a run's own network: the first of the pool that nothing uses and the engine takes."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers import addresses

_ROUTES = Path("/proc/net/route")
_ATTEMPTS = 16


def on_free_subnet(
    run_id: str, taken: Iterable[str], make: Callable[[ipaddress.IPv4Network], None]
) -> ipaddress.IPv4Network:
    """Have a network made. make: LabBroken where the engine refuses the subnet, which is not the end of it.

    Raises LabBroken when the pool has no room.
    """
    refusals = []
    for subnet in addresses.free_subnets(run_id, taken):
        try:
            make(subnet)
        except LabBroken as error:
            # Another run was quicker, or a subnet is in use that neither the engine nor the routes show.
            refusals.append(f"{subnet}: {error.detail}")
            if len(refusals) == _ATTEMPTS:
                break
        else:
            return subnet
    raise LabBroken(
        f"no network for the run could be made in {addresses.POOL}", "\n".join(refusals), "run `cephlab prune`"
    )


def routed_here() -> list[str]:
    """Networks that this machine has routes to."""
    return addresses.routed_networks(_ROUTES.read_text()) if _ROUTES.exists() else []
