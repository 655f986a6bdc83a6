"""Gateways of ceph-nvmeof without SPDK: real gRPC servers on loopback, with a state of their own and their monitors."""

import errno
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from cephlab.lab.blockstack.gatewayapi import CALLS, Certificates, message_classes

POOL, GROUP = "gateways", "g1"
MIB = 1 << 20


@dataclass
class Group:
    """What the gateways of a group share through Ceph. images: size of each in bytes; serves: ANA group -> gateway.

    idle: calls that are answered with success and do nothing; refusals: call -> (status, message).
    """

    images: dict[str, int]
    names: tuple[str, ...] = ("gw1", "gw2")
    subsystems: dict[str, dict[str, Any]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    blocklist: dict[str, str] = field(default_factory=dict)
    serves: dict[int, str] = field(default_factory=dict)
    idle: set[str] = field(default_factory=set)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    version: str = "1.3.2"
    knows_secrets: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.serves = {self.own(name): name for name in self.names}

    def own(self, name: str) -> int:
        """The ANA group that a gateway has for itself."""
        return self.names.index(name) + 1

    def lose(self, name: str) -> None:
        """The monitors miss a gateway, and have another one serve."""
        self.down.add(name)
        other = next(each for each in self.names if each not in self.down)
        self.serves = {group: other if server == name else server for group, server in self.serves.items()}

    def find(self, name: str) -> None:
        """A gateway is back: the monitors give it its own again."""
        self.down.discard(name)
        self.serves[self.own(name)] = name

    def show(self) -> dict[str, Any]:
        """As `ceph nvme-gw show` says it, of Ceph 20."""
        gateways = [
            {
                "gw-id": f"client.nvmeof.{name}",
                "anagrp-id": self.own(name),
                "Availability": "UNAVAILABLE" if name in self.down else "AVAILABLE",
                "ana states": ",  ".join(
                    f" {group}: {'ACTIVE' if server == name else 'STANDBY'} " for group, server in self.serves.items()
                ),
            }
            for name in self.names
        ]
        return {"epoch": 7, "pool": POOL, "group": GROUP, "num gws": len(gateways), "Created Gateways:": gateways}


def refused(status: int, message: str) -> dict[str, Any]:
    return {"status": status, "error_message": message}


@dataclass
class Servicer:
    """One gateway's answers: a method for each call, which returns the answer's fields."""

    group: Group
    name: str

    def get_gateway_info(self, _: Any) -> dict[str, Any]:
        own = {"load_balancing_group": self.group.own(self.name), "hostname": f"host-{self.name}"}
        return {"version": self.group.version, "name": f"client.nvmeof.{self.name}", "group": GROUP, **own}

    def create_subsystem(self, asked: Any) -> dict[str, Any]:
        if not asked.enable_ha:
            return refused(errno.EINVAL, "HA must be enabled for subsystems")
        nqn = asked.subsystem_nqn if asked.no_group_append else f"{asked.subsystem_nqn}.{GROUP}"
        if nqn in self.group.subsystems:
            return refused(errno.EEXIST, "Subsystem already exists")
        kept = {"serial": asked.serial_number, "hosts": {}, "listeners": {}, "namespaces": {}}
        self.group.subsystems[nqn] = kept
        return {"nqn": nqn}

    def delete_subsystem(self, asked: Any) -> dict[str, Any]:
        kept = self.group.subsystems.get(asked.subsystem_nqn)
        if kept is None:
            return refused(32602, "Invalid parameters")
        if kept["namespaces"] and not asked.force:
            return refused(errno.EBUSY, "a namespace is still using the subsystem")
        del self.group.subsystems[asked.subsystem_nqn]
        return {}

    def add_host(self, asked: Any) -> dict[str, Any]:
        hosts = self.group.subsystems[asked.subsystem_nqn]["hosts"]
        if asked.host_nqn in hosts:
            return refused(errno.EEXIST, "Host is already added")
        hosts[asked.host_nqn] = asked.dhchap_key if self.group.knows_secrets else ""
        return {}

    def list_hosts(self, asked: Any) -> dict[str, Any]:
        hosts = self.group.subsystems[asked.subsystem]["hosts"]
        return {"hosts": [{"nqn": nqn, "use_dhchap": bool(key)} for nqn, key in hosts.items()]}

    def create_listener(self, asked: Any) -> dict[str, Any]:
        if asked.host_name != f"host-{self.name}":
            return refused(errno.ENODEV, "Gateway's host name must match current host")
        listeners = self.group.subsystems[asked.nqn]["listeners"]
        if self.name in listeners:
            return refused(errno.EEXIST, "Subsystem already listens on this address")
        listeners[self.name] = (asked.traddr, str(asked.trsvcid))
        return {}

    def namespace_add(self, asked: Any) -> dict[str, Any]:
        namespaces = self.group.subsystems[asked.subsystem_nqn]["namespaces"]
        if asked.nsid in namespaces:
            return refused(errno.EEXIST, f"NSID {asked.nsid} is already in use")
        if asked.rbd_image_name not in self.group.images:
            return refused(errno.ENODEV, "Operation not permitted")
        if not asked.block_size or asked.anagrpid not in self.group.serves:
            return refused(errno.EINVAL, "block size can't be zero, and the load balancing group has to exist")
        image = asked.rbd_image_name
        kept = {"image": image, "uuid": asked.uuid, "group": asked.anagrpid, "size": self.group.images[image]}
        kept["whole"] = all(asked.HasField(name) for name in ("create_image", "size", "force", "no_auto_visible"))
        namespaces[asked.nsid] = kept
        return {"nsid": asked.nsid}

    def namespace_resize(self, asked: Any) -> dict[str, Any]:
        namespace = self.group.subsystems[asked.subsystem_nqn]["namespaces"][asked.nsid]
        if asked.new_size * MIB < self.group.images[namespace["image"]]:
            return refused(errno.EINVAL, "new size is smaller than current size")
        namespace["size"] = asked.new_size * MIB
        return {}

    def namespace_delete(self, asked: Any) -> dict[str, Any]:
        namespaces = self.group.subsystems[asked.subsystem_nqn]["namespaces"]
        if asked.nsid not in namespaces:
            return refused(errno.ENODEV, "Can't find namespace")
        del namespaces[asked.nsid]
        return {}

    def namespace_change_load_balancing_group(self, asked: Any) -> dict[str, Any]:
        namespace = self.group.subsystems[asked.subsystem_nqn]["namespaces"][asked.nsid]
        if self.group.own(self.name) != namespace["group"]:
            return refused(errno.ENODEV, "try this command from the gateway that owns the ANA group")
        if not namespace["whole"]:  # ceph-nvmeof keeps the request, and makes a new one of it
            return refused(errno.EINVAL, "Error persisting namespace load balancing group: 'create_image'")
        namespace["group"] = asked.anagrpid
        return {}

    def list_namespaces(self, asked: Any) -> dict[str, Any]:
        namespaces = self.group.subsystems[asked.subsystem]["namespaces"]
        listed = [{"nsid": nsid, "rbd_image_size": kept["size"]} for nsid, kept in namespaces.items()]
        return {"namespaces": listed}

    def get_subsystems(self, _: Any) -> dict[str, Any]:
        first = 2040 * (self.group.own(self.name) - 1) + 1
        return {
            "subsystems": [
                {
                    "nqn": nqn,
                    "serial_number": kept["serial"],
                    "hosts": [{"nqn": host} for host in kept["hosts"]],
                    "listen_addresses": [
                        {"traddr": address, "trsvcid": port}
                        for name, (address, port) in kept["listeners"].items()
                        if name == self.name
                    ],
                    "min_cntlid": first,
                    "max_cntlid": first + 2039,
                    "namespaces": [
                        {
                            "nsid": nsid,
                            "uuid": namespace["uuid"],
                            "nguid": namespace["uuid"].replace("-", "").upper(),
                            "anagrpid": namespace["group"],
                            "nonce": f"v1:10.0.0.{self.group.own(self.name)}:0/{namespace['group']}",
                        }
                        for nsid, namespace in kept["namespaces"].items()
                    ],
                }
                for nqn, kept in self.group.subsystems.items()
            ]
        }

    def answer(self, call: str, asked: Any) -> dict[str, Any]:
        """What a call is answered with, sabotage included."""
        self.group.asked.append((self.name, call))
        if call in self.group.refusals:
            return refused(*self.group.refusals[call])
        if call in self.group.idle:
            return {}
        answer: Callable[[Any], dict[str, Any]] = getattr(self, call)
        return answer(asked)


def handlers(servicer: Servicer, classes: Mapping[str, Any]) -> Any:
    """The servicer as the gRPC service `Gateway`."""

    def handler(call: str) -> Any:
        request, answer = (classes[kind] for kind in CALLS[call])

        def behaviour(asked: Any, context: Any) -> Any:
            if servicer.name in servicer.group.down:
                context.abort(grpc.StatusCode.UNAVAILABLE, "it is down")
            return answer(**servicer.answer(call, asked))

        return grpc.unary_unary_rpc_method_handler(
            behaviour,
            request_deserializer=request.FromString,
            response_serializer=answer.SerializeToString,
        )

    return grpc.method_handlers_generic_handler("Gateway", {call: handler(call) for call in CALLS})


@contextmanager
def serving(group: Group, certificates: Certificates | None = None, key: bytes = b"") -> Iterator[list[str]]:
    """A server for each gateway of a group; yields their addresses. key: of the server's certificate."""
    with ExitStack() as stop:
        addresses = []
        for name in group.names:
            pool = stop.enter_context(ThreadPoolExecutor(1))
            server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
            server.add_generic_rpc_handlers((handlers(Servicer(group, name), message_classes()),))
            if certificates is None:
                port = server.add_insecure_port("127.0.0.1:0")
            else:
                chain = certificates.server_cert.read_bytes()
                credentials = grpc.ssl_server_credentials(
                    [(key, chain)], certificates.client_cert.read_bytes(), require_client_auth=True
                )
                port = server.add_secure_port("127.0.0.1:0", credentials)
            server.start()
            stop.callback(lambda stopping: stopping.stop(None).wait(), server)
            addresses.append(f"127.0.0.1:{port}")
        yield addresses
