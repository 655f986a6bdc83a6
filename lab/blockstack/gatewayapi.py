"""The gRPC API of ceph-nvmeof, Ceph's gateway over SPDK: the calls that the lab makes, and their wire format.

Names and numbers of fields are from control/proto/gateway.proto of versions 1.2.0 to 1.3.2; those of DH-HMAC-CHAP came
after 1.3.2. Only what the lab sends or reads is here. Other fields of an answer are ignored.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import CephTrouble, Unavailable

ANSWER_S = 60.0
"""A gateway waits for SPDK, for a lock in Ceph that its group shares, and for changes of the other gateways."""
_PACKAGE = "cephlab.nvmeof"
_SERVICE = "Gateway"

Fields = Mapping[str, tuple[int, str]]
"""Name -> (field number, type). A type that is not a scalar is a message of this file, and repeated."""

_STATUS: Fields = {"status": (1, "int32"), "error_message": (2, "string")}
_ONE_NAMESPACE: Fields = {"subsystem_nqn": (1, "string"), "nsid": (2, "uint32")}
_LISTENER: Fields = {
    "nqn": (1, "string"),
    "host_name": (2, "string"),
    "traddr": (3, "string"),
    "adrfam": (5, "int32"),
    "trsvcid": (6, "uint32"),
    "secure": (7, "bool"),
}

MESSAGES: Mapping[str, Fields] = {
    "get_gateway_info_req": {},
    "gateway_info": {
        "version": (2, "string"),
        "name": (3, "string"),
        "group": (4, "string"),
        "status": (8, "int32"),
        "error_message": (9, "string"),
        "spdk_version": (10, "string"),
        "load_balancing_group": (11, "uint32"),
        "hostname": (12, "string"),
    },
    "create_subsystem_req": {
        "subsystem_nqn": (1, "string"),
        "serial_number": (2, "string"),
        "max_namespaces": (3, "uint32"),
        "enable_ha": (4, "bool"),
        "no_group_append": (5, "bool"),
    },
    "subsys_status": {**_STATUS, "nqn": (3, "string")},
    "delete_subsystem_req": {"subsystem_nqn": (1, "string"), "force": (2, "bool")},
    "add_host_req": {"subsystem_nqn": (1, "string"), "host_nqn": (2, "string"), "dhchap_key": (4, "string")},
    "list_hosts_req": {"subsystem": (1, "string")},
    "hosts_info": {**_STATUS, "allow_any_host": (3, "bool"), "hosts": (5, "host")},
    "host": {"nqn": (1, "string"), "use_psk": (2, "bool"), "use_dhchap": (3, "bool")},
    "create_listener_req": _LISTENER,
    "namespace_add_req": {
        "rbd_pool_name": (1, "string"),
        "rbd_image_name": (2, "string"),
        "subsystem_nqn": (3, "string"),
        "nsid": (4, "uint32"),
        "block_size": (5, "uint32"),
        "uuid": (6, "string"),
        "anagrpid": (7, "int32"),
        "create_image": (8, "bool"),
        "size": (9, "uint64"),
        "force": (10, "bool"),
        "no_auto_visible": (11, "bool"),
    },
    "nsid_status": {**_STATUS, "nsid": (3, "uint32")},
    "namespace_resize_req": {**_ONE_NAMESPACE, "new_size": (4, "uint64")},
    "namespace_change_load_balancing_group_req": {**_ONE_NAMESPACE, "anagrpid": (4, "int32")},
    "namespace_delete_req": _ONE_NAMESPACE,
    "req_status": _STATUS,
    "list_namespaces_req": {"subsystem": (1, "string")},
    "namespaces_info": {**_STATUS, "namespaces": (4, "namespace_cli")},
    "namespace_cli": {
        "nsid": (1, "uint32"),
        "rbd_image_name": (3, "string"),
        "rbd_pool_name": (4, "string"),
        "load_balancing_group": (5, "uint32"),
        "block_size": (6, "uint32"),
        "rbd_image_size": (7, "uint64"),
        "uuid": (8, "string"),
    },
    "get_subsystems_req": {},
    "subsystems_info": {"subsystems": (1, "subsystem")},
    "subsystem": {
        "nqn": (1, "string"),
        "listen_addresses": (3, "listen_address"),
        "hosts": (4, "host"),
        "allow_any_host": (5, "bool"),
        "serial_number": (6, "string"),
        "max_namespaces": (8, "uint32"),
        "min_cntlid": (9, "uint32"),
        "max_cntlid": (10, "uint32"),
        "namespaces": (11, "namespace"),
    },
    "listen_address": {"traddr": (3, "string"), "trsvcid": (4, "string")},
    "namespace": {
        "nsid": (1, "uint32"),
        "nguid": (4, "string"),
        "uuid": (5, "string"),
        "anagrpid": (6, "uint32"),
        "nonce": (7, "string"),
    },
}

CALLS: Mapping[str, tuple[str, str]] = {
    "get_gateway_info": ("get_gateway_info_req", "gateway_info"),
    "create_subsystem": ("create_subsystem_req", "subsys_status"),
    "delete_subsystem": ("delete_subsystem_req", "req_status"),
    "get_subsystems": ("get_subsystems_req", "subsystems_info"),
    "add_host": ("add_host_req", "req_status"),
    "list_hosts": ("list_hosts_req", "hosts_info"),
    "create_listener": ("create_listener_req", "req_status"),
    "namespace_add": ("namespace_add_req", "nsid_status"),
    "namespace_resize": ("namespace_resize_req", "req_status"),
    "namespace_delete": ("namespace_delete_req", "req_status"),
    "namespace_change_load_balancing_group": ("namespace_change_load_balancing_group_req", "req_status"),
    "list_namespaces": ("list_namespaces_req", "namespaces_info"),
}
"""Name of each call -> its request and its answer. subsys_status was req_status before 1.3, with the same numbers."""


class GatewayRefused(CephTrouble):
    """A gateway refused a call, or did not answer it. status: its errno; 0 where it did not answer."""

    def __init__(self, gateway: str, call: str, status: int, message: str) -> None:
        self.status = status
        self.message = message
        what = f"refused {call} with {errno.errorcode.get(status, status)}" if status else f"did not answer {call}"
        super().__init__(f"the gateway at {gateway} {what}", message)


@dataclass(frozen=True)
class Certificates:
    """PEM files for a gateway with mTLS: its own certificate, and that of the client with its key."""

    server_cert: Path
    client_cert: Path
    client_key: Path


@cache
def message_classes() -> Mapping[str, Any]:
    """Name of each message -> its class. Unavailable if protobuf or grpcio is not installed."""
    require()
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    # proto2 sends all given fields, even zeros: gateways store requests as they came, and later need every field.
    file = FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    for name, wanted in MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, (number, kind) in wanted.items():
            if kind in MESSAGES:
                repeated, inner = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.TYPE_MESSAGE
                message.field.add(name=key, number=number, label=repeated, type=inner, type_name=f".{_PACKAGE}.{kind}")
            else:
                scalar = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
                message.field.add(name=key, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL, type=scalar)
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in MESSAGES}


def require() -> None:
    """Unavailable if the libraries of the extra `nvmeof` are not installed."""
    try:
        import google.protobuf  # noqa: F401
        import grpc  # noqa: F401
    except ImportError as error:
        why = f"calls to gateways of ceph-nvmeof need them: {error}"
        raise Unavailable("grpcio and protobuf are not installed", why, "pip install 'cephlab[nvmeof]'") from None


def path_of(call: str) -> str:
    """The HTTP/2 path of a call. gateway.proto has no package name."""
    return f"/{_SERVICE}/{call}"


@dataclass(frozen=True)
class GatewayApi:
    """The API of one gateway. address: ADDRESS:PORT, with brackets around an IPv6 address.

    Each call has its own connection: a kept one waits for minutes before it tries a gateway again that was down.
    """

    address: str
    certificates: Certificates | None = None

    def call(self, name: str, **fields: Any) -> Any:
        """Make a call; returns the message of the answer. GatewayRefused unless its status is 0."""
        request, answer = (message_classes()[kind] for kind in CALLS[name])
        import grpc

        with self._channel() as channel:
            ask = channel.unary_unary(
                path_of(name), request_serializer=request.SerializeToString, response_deserializer=answer.FromString
            )
            try:
                reply = ask(request(**fields), timeout=ANSWER_S)
            except grpc.RpcError as error:
                raise GatewayRefused(self.address, name, 0, f"{error.code().name}: {error.details()}") from error
        if getattr(reply, "status", 0):
            raise GatewayRefused(self.address, name, reply.status, reply.error_message)
        return reply

    def _channel(self) -> Any:
        import grpc

        # Gateways are not reached through a web proxy.
        options = [("grpc.enable_http_proxy", 0)]
        if self.certificates is None:
            return grpc.insecure_channel(self.address, options)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=self.certificates.server_cert.read_bytes(),
            private_key=self.certificates.client_key.read_bytes(),
            certificate_chain=self.certificates.client_cert.read_bytes(),
        )
        return grpc.secure_channel(self.address, credentials, options)
