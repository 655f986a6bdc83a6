"""A bridge network of a run's own, on a subnet that nothing else uses."""

from __future__ import annotations

from pathlib import Path

import docker.types

from lab.errors import LabBroken
from lab.home import Home
from lab.providers import addresses
from lab.providers.container import names
from lab.providers.container.engine import Engine, engine_errors
from lab.providers.container.nodes import making

_ROUTES = Path("/proc/net/route")
_ATTEMPTS = 16


def make_network(engine: Engine, run_id: str, home: Home) -> str:
    """Make the run's network; returns its subnet. LabBroken when the pool has no room."""
    refusals = []
    for subnet in addresses.free_subnets(run_id, _taken(engine)):
        layout = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=str(subnet))])
        try:
            with making(f"network {names.network_name(run_id)}", run_id):
                engine.client.api.create_network(
                    names.network_name(run_id),
                    driver="bridge",
                    ipam=layout,
                    check_duplicate=True,
                    labels=names.labels(run_id, home),
                )
        except LabBroken as error:
            # Another run was quicker, or a subnet is in use that neither the engine nor the routes show.
            refusals.append(f"{subnet}: {error.detail}")
            if len(refusals) == _ATTEMPTS:
                break
            continue
        return str(subnet)
    raise LabBroken(
        f"no network for the run could be made in {addresses.POOL}", "\n".join(refusals), "run `cephlab prune`"
    )


def _taken(engine: Engine) -> list[str]:
    """Subnets of the engine's networks and of this machine's routes."""
    with engine_errors("listing its networks"):
        found = engine.client.api.networks()
    used = [
        str(pool["Subnet"])
        for network in found
        for pool in (network.get("IPAM") or {}).get("Config") or []
        if pool.get("Subnet")
    ]
    if engine.local and _ROUTES.exists():
        used += addresses.routed_networks(_ROUTES.read_text())
    return used
