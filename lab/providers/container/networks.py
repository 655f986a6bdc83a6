"""A run's own bridge network, on a subnet that nothing else uses."""

from __future__ import annotations

import ipaddress

import docker.types

from cephlab.lab.base.home import Home
from cephlab.lab.providers.addresses import on_free_subnet, routed_here
from cephlab.lab.providers.container import names
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.container.nodes import making


def make_network(engine: Engine, run_id: str, home: Home) -> str:
    """Make the run's network; returns its subnet. LabBroken when the pool has no free subnet."""

    def make(subnet: ipaddress.IPv4Network) -> None:
        layout = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool(subnet=str(subnet))])
        with making(f"network {names.network_name(run_id)}", run_id):
            engine.client.api.create_network(
                names.network_name(run_id),
                driver="bridge",
                ipam=layout,
                check_duplicate=True,
                labels=names.labels(run_id, home),
            )

    return str(on_free_subnet(run_id, _taken(engine), make))


def _taken(engine: Engine) -> list[str]:
    """Subnets of the engine's networks and of this machine's routes."""
    with engine_errors("listing its networks"):
        listed = engine.client.api.networks()
    used = [
        str(pool["Subnet"])
        for network in listed
        for pool in (network.get("IPAM") or {}).get("Config") or []
        if pool.get("Subnet")
    ]
    return used + (routed_here() if engine.local else [])
