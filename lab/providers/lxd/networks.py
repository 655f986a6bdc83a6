"""A run's own bridge on every machine, on a subnet that nothing else uses. Tunnels connect them to one network."""

import ipaddress
import socket
from collections.abc import Sequence

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.providers.addresses import on_free_subnet, routed_here
from cephlab.lab.providers.lxd import names
from cephlab.lab.providers.lxd.server import Server, lxd_errors

_PREFIX = 24
TUNNEL_MTU = 1400
"""For bridges with tunnels and the interfaces on them. Leaves room for VXLAN's 50 bytes and a cloud's own headers."""

_VXLAN_PORT = "4789"
"""IANA's port, which firewall rules are likely to name; the kernel's own default is 8472."""


def make_network(servers: Sequence[Server], run_id: str, home: Home) -> str:
    """Make the run's network; returns its subnet.

    LabBroken when the pool has no free subnet, Unavailable if LXD lacks dnsmasq, which its networks need.
    """

    def make(subnet: ipaddress.IPv4Network) -> None:
        try:
            # A star around the first machine. With a tunnel between every two machines, packets would loop.
            config = _gateway(subnet)
            for number, server in enumerate(servers[1:], start=1):
                config |= _tunnel(number, servers[0], server)
            _make(servers[0], run_id, home, config)
        except LabBroken as error:
            if "already exists" in error.detail and names.bridge_name(run_id) in error.detail:
                raise SpecError(f"a network of a run {run_id!r} already exists", error.detail) from error
            if '"dnsmasq": executable file not found' in error.detail:  # no subnet would help
                hint = "install it on LXD's machine (root: apt-get install dnsmasq-base)"
                raise Unavailable("LXD's networks need dnsmasq, which is not installed", error.detail, hint) from error
            raise

    subnet = on_free_subnet(run_id, _taken(servers), make)
    for number, server in enumerate(servers[1:], start=1):
        _make(server, run_id, home, {"ipv4.address": "none"} | _tunnel(number, server, servers[0]))
    return str(subnet)


def _gateway(subnet: ipaddress.IPv4Network) -> dict[str, str]:
    """Without DHCP, because instances have fixed addresses."""
    return {
        "ipv4.address": f"{next(subnet.hosts())}/{_PREFIX}",
        "ipv4.nat": "false",
        "ipv4.dhcp": "false",
    }


def _make(server: Server, run_id: str, home: Home, config: dict[str, str]) -> None:
    wanted = {**config, "ipv6.address": "none", "dns.mode": "none", **names.labels(run_id, home)}
    request = {"name": names.bridge_name(run_id), "type": "bridge", "config": wanted}
    with lxd_errors(f"making network {names.bridge_name(run_id)} for {run_id}"):
        server.api().networks.post(json=request)


def _tunnel(number: int, server: Server, other: Server) -> dict[str, str]:
    """One end of a VXLAN tunnel between two machines."""
    near, far = _address_seen_by(server, other), _address_seen_by(other, server)
    settings = {"protocol": "vxlan", "local": near, "remote": far, "id": str(number), "port": _VXLAN_PORT}
    return {f"tunnel.t{number}.{key}": value for key, value in settings.items()} | {"bridge.mtu": str(TUNNEL_MTU)}


def _address_seen_by(server: Server, by: Server) -> str:
    """The address under which another machine of the lab reaches a server."""
    if server.address.host:
        with lxd_errors(f"looking up {server.address.host}"):
            return socket.gethostbyname(server.address.host)
    if not by.address.host:
        raise SpecError(
            "two LXDs with sockets on this machine cannot form one lab", f"{server.address.url}, {by.address.url}"
        )
    # This machine's address is the source address of packets to the other one.
    with lxd_errors(f"routing to {by.address.host}"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((by.address.host, by.address.port))
        return str(probe.getsockname()[0])


def _taken(servers: Sequence[Server]) -> list[str]:
    """Subnets of the LXDs' networks and of this machine's routes."""
    used = []
    for server in servers:
        listed = server.get("listing its networks", server.api().networks, params={"recursion": 1})
        used += [str((network.get("config") or {}).get("ipv4.address", "")) for network in listed]
    return used + (routed_here() if any(server.local for server in servers) else [])
