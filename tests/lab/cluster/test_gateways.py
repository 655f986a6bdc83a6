"""Whom an S3 client of a cluster may ask: every gateway and balancer that runs, one user, and a file for its owner."""

import json
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.gateway import _remove_pools, load_keys, speaking_s3, write_s3_file

KEYS = {"access_key": "access-of-the-lab", "secret_key": "secret-of-the-lab"}


def cluster(folder: Path, *names: str, dead: str = "") -> Any:
    """A cluster with these daemons; users: those that its radosgw-admin made; asked: what it was asked."""
    users: list[str] = []
    asked: list[str] = []

    def tool(node: str, program: str, *argv: str) -> str:
        assert (node, program) == ("n0", "radosgw-admin")
        asked.append(argv[1])
        if argv[1] == "list":
            return json.dumps(users)
        assert (argv[1] == "info") == (argv[3] in users)
        users.append(argv[3])
        return json.dumps({"keys": [KEYS]})

    host = SimpleNamespace(address="127.1.0.1", directory=PurePosixPath("/n0"), read=lambda path: str(path).encode())
    daemons = {
        name: SimpleNamespace(
            name=name,
            kind=name.partition(".")[0],
            id=name.partition(".")[2],
            host=host,
            alive=lambda name=name: name != dead,
        )
        for name in names
    }
    client = SimpleNamespace(host=SimpleNamespace(name="n0"))
    files = (folder / "ceph.conf", folder / "keyring")
    return SimpleNamespace(daemons=daemons, client=client, tool=tool, client_files=files, asked=asked, s3_users={})


def test_every_gateway_that_runs_is_named_with_its_own_port_and_one_user(tmp_path: Path) -> None:
    made = cluster(tmp_path, "rgw.n0.b", "rgw.n0", "rgw.n1", "haproxy.n0", "osd.0", dead="rgw.n1")
    gateways = speaking_s3(made)
    assert [(each.name, each.address, each.tls_address) for each in gateways] == [
        ("rgw.n0", "127.1.0.1:7480", "127.1.0.1:7580"),
        ("rgw.n0.b", "127.1.0.1:7481", "127.1.0.1:7581"),
    ]
    (balancer,) = speaking_s3(made, "haproxy")
    assert (balancer.address, balancer.access_key) == ("127.1.0.1:8480", "access-of-the-lab")
    assert made.asked == ["list", "create"]  # once for all that ask
    assert "secret" not in repr(balancer)


def test_what_an_s3_client_needs_is_in_a_file_of_its_owner(tmp_path: Path) -> None:
    path = write_s3_file(cluster(tmp_path, "rgw.n0", "haproxy.n0"))
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    told = json.loads(path.read_text())
    assert told["endpoints"]["rgw.n0"]["https"] == "https://127.1.0.1:7580"
    assert told["balancers"]["haproxy.n0"]["certificate"] == "/n0/haproxy.n0/certificate.pem"
    assert told["secret_key"] == KEYS["secret_key"]


def test_a_user_is_made_again_once_its_pools_are_removed(tmp_path: Path) -> None:
    made = cluster(tmp_path, "rgw.n0")
    made.client.mon = lambda _prefix: []
    speaking_s3(made)
    _remove_pools(made)
    speaking_s3(made)
    assert made.asked == ["list", "create", "list", "info"]


def test_a_cluster_without_gateways_has_no_such_file(tmp_path: Path) -> None:
    made = cluster(tmp_path, "osd.0")
    assert write_s3_file(made) is None
    assert list(tmp_path.iterdir()) == []
    assert made.asked == []


def test_keys_of_a_user_are_read_from_what_the_lab_writes(tmp_path: Path) -> None:
    path = write_s3_file(cluster(tmp_path, "rgw.n0"))
    assert path is not None
    assert load_keys(path) == (KEYS["access_key"], KEYS["secret_key"])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"access_key": "a"}', "access_key = 1", '{"access_key": "a", "secret_key": null}']
)
def test_a_file_without_keys_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s3.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"has no S3 keys|is not JSON") as caught:
        load_keys(path)
    assert text == "" or text not in str(caught.value)
