"""The calls of ceph-nvmeof's API as they are on the wire, and how a gateway that does not answer is told."""

from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.blockstack.gatewayapi import Certificates, GatewayApi, GatewayRefused, message_classes
from cephlab.lab.services.certificate import self_signed
from tests.fake_gateways import Group, serving


def test_a_gateway_that_does_not_answer_is_named() -> None:
    api = GatewayApi("127.0.0.1:1")
    with pytest.raises(GatewayRefused, match=r"127\.0\.0\.1:1 did not answer get_gateway_info") as caught:
        api.call("get_gateway_info")
    assert caught.value.status == 0
    assert "UNAVAILABLE" in caught.value.detail


def test_gateways_with_mtls_are_asked_by_certificate(tmp_path: Path) -> None:
    pems = {}
    for name in ("server", "client"):
        pems[name], key = self_signed("127.0.0.1")
        (tmp_path / f"{name}.crt").write_bytes(pems[name])
        (tmp_path / f"{name}.key").write_bytes(key)
    certificates = Certificates(*(tmp_path / name for name in ("server.crt", "client.crt", "client.key")))
    group = Group({}, names=("gw1",))
    with serving(group, certificates, (tmp_path / "server.key").read_bytes()) as [address]:
        for given, answers in ((certificates, True), (None, False)):
            api = GatewayApi(address, given)
            if answers:
                assert api.call("get_gateway_info").version == "1.3.2"
            else:
                with pytest.raises(GatewayRefused, match="did not answer"):
                    api.call("get_gateway_info")


# Bytes as the code writes them that protoc makes of ceph-nvmeof's own gateway.proto (commit 76aed586).
WIRE: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "create_subsystem_req",
        {"subsystem_nqn": "nqn.s", "serial_number": "one", "max_namespaces": 32, "enable_ha": True}
        | {"no_group_append": True},
        "0a056e716e2e7312036f6e65182020012801",
    ),
    (
        "add_host_req",
        {"subsystem_nqn": "nqn.s", "host_nqn": "nqn.h", "dhchap_key": "DHHC-1"},
        "0a056e716e2e7312056e716e2e682206444848432d31",
    ),
    (
        "create_listener_req",
        {"nqn": "nqn.s", "host_name": "gw", "traddr": "10.0.0.1", "adrfam": 0, "trsvcid": 4420, "secure": False},
        "0a056e716e2e73120267771a0831302e302e302e31280030c4223800",
    ),
    (
        "namespace_add_req",
        {"rbd_pool_name": "p", "rbd_image_name": "i", "subsystem_nqn": "nqn.s", "nsid": 2}
        | {"block_size": 512, "uuid": "u", "anagrpid": 3}
        | {"create_image": False, "size": 0, "force": False, "no_auto_visible": False},
        "0a01701201691a056e716e2e73200228800432017538034000480050005800",
    ),
    (
        "namespace_resize_req",
        {"subsystem_nqn": "nqn.s", "nsid": 2, "new_size": 1 << 33},
        "0a056e716e2e731002208080808020",
    ),
)


@pytest.mark.parametrize(("message", "fields", "wire"), WIRE)
def test_the_wire_is_that_of_ceph_nvmeof(message: str, fields: dict[str, Any], wire: str) -> None:
    assert message_classes()[message](**fields).SerializeToString().hex() == wire
