"""Inventories: what a file says, and that everything wrong in one is named before any machine is contacted."""

import json
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.providers.ssh.connection import ssh_words, unreachable
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import (
    MAX_DIRECTORY,
    Inventory,
    NvmeofAccess,
    Role,
    S3Access,
    load_inventory,
    machine_from_json,
    machine_to_json,
)

GOOD = """
user = "ceph"
architecture = "amd64"
key = "id"
profile = "ampere-altra-4n"

[ceph]
conf = "ceph.conf"
keyring = "keyring"

[s3]
endpoints = ["192.0.2.1:7480", "two.example:80"]
keys = "s3.json"

[nvmeof]
pool = "gateways"
server_cert = "server.crt"
client_cert = "client.crt"
client_key = "client.key"

[[hosts]]
name = "one"
address = "192.0.2.1"
roles = ["mon", "osd", "nvmeof"]

[[hosts]]
name = "two"
address = "two.example"
cluster_address = "192.0.2.2"
architecture = "aarch64"
roles = ["client"]
user = "root"
port = 2222
directory = "/srv/lab"
"""


CERTIFICATES = ("server.crt", "client.crt", "client.key")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("id", "ceph.conf", "keyring", "s3.json", *CERTIFICATES):
        (tmp_path / name).touch()
    return tmp_path


def load(folder: Path, text: str) -> Inventory:
    path = folder / "inventory.toml"
    path.write_text(text)
    return load_inventory(path)


def test_what_is_written_is_read(folder: Path) -> None:
    inventory = load(folder, GOOD)
    first, second = inventory.machines
    assert (first.name, first.user, first.port, first.arch) == ("one", "ceph", None, Arch.X86_64)
    assert (first.address, first.cluster_address, first.key) == ("192.0.2.1", "192.0.2.1", str(folder / "id"))
    assert (second.user, second.port, second.arch, second.directory) == ("root", 2222, Arch.AARCH64, "/srv/lab")
    assert (second.address, second.cluster_address) == ("two.example", "192.0.2.2")
    assert inventory.ceph is not None
    assert (inventory.ceph.conf, inventory.ceph.keyring, inventory.ceph.name) == (
        folder / "ceph.conf",
        folder / "keyring",
        "client.admin",
    )
    assert inventory.profile == "ampere-altra-4n"
    assert inventory.with_role(Role.OSD) == (first,)
    assert inventory.s3 == S3Access(("192.0.2.1:7480", "two.example:80"), folder / "s3.json")
    server, client, key = (folder / name for name in CERTIFICATES)
    assert inventory.nvmeof == NvmeofAccess("gateways", 5500, (server, client, key))
    assert inventory.with_role(Role.NVMEOF) == (first,)


@pytest.mark.parametrize("written", ["mine.toml", "./mine.toml"])
def test_the_file_of_a_profile_is_looked_for_beside_the_inventory(folder: Path, written: str) -> None:
    (folder / "mine.toml").touch()
    assert load(folder, GOOD.replace("ampere-altra-4n", written)).profile == str(folder / "mine.toml")


def test_a_machine_goes_through_json(folder: Path) -> None:
    for machine in load(folder, GOOD).machines:
        assert machine_from_json(json.loads(json.dumps(machine_to_json(machine)))) == machine


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('name = "two"', 'name = "one"', "'one' is there twice"),
        ('address = "two.example"', 'address = "-oProxyCommand=x"', "hosts.1.address: got '-oProxyCommand=x'"),
        ('user = "root"', 'user = "-l"', "hosts.1.user: got '-l'"),
        ("port = 2222", "port = 70000", "hosts.1.port: got 70000"),
        ("port = 2222", 'port = "22"', "hosts.1.port: got '22'"),
        ('roles = ["client"]', 'roles = ["cleint"]', "hosts.1.roles.0: got 'cleint'"),
        ('roles = ["client"]', "roles = []", "hosts.1.roles"),
        ('architecture = "aarch64"', 'architecture = "riscv64"', "hosts.1.architecture: got 'riscv64'"),
        ('architecture = "amd64"', "", "hosts.0.architecture: missing"),
        ('key = "id"', 'key = "nokey"', "key of one: got"),
        ('key = "id"', f'key = "{"x" * 999}"', "key of one: got"),
        ('key = "id"', 'sudo = "true"', "sudo: got 'true', wanted: true or false"),
        ('"192.0.2.1:7480"', '"192.0.2.1:70000"', "s3.endpoints.0: got '192.0.2.1:70000', wanted: ADDRESS:PORT, with"),
        ('"ampere-altra-4n"', '"gone.toml"', "profile: got"),
        ('keyring = "keyring"', 'keyring = "gone"', "ceph.keyring: got"),
        ('keyring = "keyring"', "", "ceph.keyring: missing"),
        ("[ceph]", "[cehp]", "cehp: unknown key"),
        ('"192.0.2.1:7480"', '"http://192.0.2.1:7480"', "s3.endpoints.0: got 'http://192.0.2.1:7480'"),
        ('"192.0.2.1:7480", "two.example:80"', "", "s3.endpoints"),
        ('keys = "s3.json"', 'keys = "gone.json"', "s3.keys: got"),
        ('keys = "s3.json"', 'secret_key = "x"', "s3.keys: missing"),
        ('client_key = "client.key"', 'client_key = "gone.key"', "nvmeof.client_key: got"),
        ('client_key = "client.key"', "", "wanted: all three for mTLS, or none"),
        (', "nvmeof"]', "]", "a table [nvmeof] and the role nvmeof"),
        ('user = "ceph"', 'usr = "ceph"', "usr: unknown key"),
        ('directory = "/srv/lab"', 'directory = "lab"', "hosts.1.directory: got 'lab'"),
        ('directory = "/srv/lab"', f'directory = "/{"x" * MAX_DIRECTORY}"', "hosts.1.directory"),
        ("[[hosts]]", "[[host]]", "hosts: missing"),
        ("[ceph]", "[ceph", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, old: str, new: str, named: str) -> None:
    assert old in GOOD
    with pytest.raises(SpecError) as caught:
        load(folder, GOOD.replace(old, new))
    assert named in str(caught.value)
    assert "inventory.toml" in caught.value.what


def test_files_of_clients_that_are_no_text_are_refused_before_a_run(folder: Path) -> None:
    (folder / "keyring").write_bytes(b"\xff")
    with pytest.raises(SpecError, match="keyring cannot be read") as caught:
        load(folder, GOOD)
    assert "it is not text" in caught.value.detail


def test_one_machine_under_two_names_is_refused(folder: Path) -> None:
    same = GOOD.replace('address = "two.example"', 'address = "192.0.2.1"').replace("port = 2222", "port = 22")
    with pytest.raises(SpecError, match=r"192\.0\.2\.1 port 22 is there twice"):
        load(folder, same)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nowhere"):
        load_inventory(tmp_path / "nowhere")


def test_host_keys_are_never_taken_unseen(folder: Path) -> None:
    for machine in load(folder, GOOD).machines:
        words = ssh_words(machine)
        assert "StrictHostKeyChecking=yes" in words
        assert "BatchMode=yes" in words
        assert not [word for word in words if "UserKnownHostsFile=/dev/null" in word]


@pytest.mark.parametrize(
    ("said", "what", "hint"),
    [
        (
            "No ED25519 host key is known for x\nHost key verification failed.",
            "host key is not known",
            "ssh-keyscan -p 22",
        ),
        (
            "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key verification failed.",
            "differs from the known one",
            "ssh-keygen -R 192.0.2.1",
        ),
        ("ceph@192.0.2.1: Permission denied (publickey).", "does not let ceph in", "authorized_keys"),
        ("ssh: Could not resolve hostname x", "cannot be resolved here", "resolves"),
        ("ssh: connect to host x port 22: Connection refused", "does not answer at 192.0.2.1 port 22", "sshd"),
    ],
)
def test_the_words_of_ssh_have_a_remedy(folder: Path, said: str, what: str, hint: str) -> None:
    error = unreachable(load(folder, GOOD).machines[0], said)
    assert "one" in error.what
    assert what in error.what
    assert hint in error.hint
    assert said in error.detail
