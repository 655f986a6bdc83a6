"""TLS of NVMe over TCP on a node that is none: when its daemon serves, and what is said of a key that is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from signal import SIGTERM
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.blockstack import nvmet_program
from cephlab.lab.blockstack.initiator import Connecting, Initiator
from cephlab.lab.blockstack.nvmeof import CONTROLLERS, Volume, host_nqn, tls_key_of
from cephlab.lab.blockstack.nvmet import KernelGateway
from cephlab.lab.blockstack.tls import TlsNode, listens
from cephlab.lab.cluster.cluster import Cluster
from tests.lab.blockstack import test_nvmeof as nodes
from tests.lab.blockstack.test_nvmeof import VOLUME, WANTED

NETLINK = """sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
0000000000000000 0   311        00000011 0        0        0     2        0        7
0000000000000000 16  0          00000000 0        0        0     2        0        8
0000000000000000 16  313        00000000 0        0        0     2        0        9
0000000000000000 16  272630581  00001000 0        0        0     2        0        9
"""
KEY = tls_key_of(bytes(range(32)))


@dataclass
class Machine:
    """A node without tlshd. code: how its programs end; each tells its command line."""

    code: int = 0
    ran: list[Sequence[str]] = field(default_factory=list)

    def exists(self, _path: PurePosixPath) -> bool:
        return False

    def run(self, argv: Sequence[str], **_options: Any) -> Result:
        self.ran.append(argv)
        return Result(tuple(argv), self.code, b"", " ".join(argv).encode())


@dataclass
class Kernel:
    """What a program asks of a kernel's tree, in order: attributes that it writes, folders in which it makes links."""

    asked: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    def put(self, _folder: Path, **attributes: str) -> None:
        self.asked += attributes
        self.values |= attributes

    def link(self, path: Path, _target: Path) -> None:
        self.asked.append(path.parent.name)


def node_of(machine: Machine) -> TlsNode:
    return TlsNode(cast("Cluster", SimpleNamespace(hosts={"c0": machine}, patience=1.0)), "c0")


@pytest.mark.parametrize(("pid", "serves"), [(821, True), (311, False), (313, False)])
def test_a_daemon_serves_once_it_is_told_of_handshakes(pid: int, serves: bool) -> None:
    assert listens(NETLINK, pid) is serves


def test_an_image_without_the_daemon_is_a_skip_that_names_it() -> None:
    with pytest.raises(Unavailable, match="tlshd is not in the image of c0"), node_of(Machine()).shaking_hands():
        raise AssertionError("nothing serves")


def test_a_daemon_that_does_not_start_is_the_labs_trouble_and_is_ended() -> None:
    ended: list[int] = []
    process = SimpleNamespace(ref={"pid": 311}, signal=ended.append)
    calls = {"run": lambda _argv: None, "push": lambda *_: None, "exists": lambda _path: True}
    host = SimpleNamespace(
        **calls, spawn=lambda _argv, log: process, read=lambda _path: NETLINK.encode(), directory=PurePosixPath("/d")
    )
    node = TlsNode(cast("Cluster", SimpleNamespace(hosts={"c0": host}, patience=0.0)), "c0")
    with pytest.raises(LabBroken, match="the start of tlshd on c0 took more than 0 s"), node.shaking_hands():
        raise AssertionError("nothing serves")
    assert ended == [SIGTERM]


def test_a_key_is_for_one_host_and_one_volume() -> None:
    machine, volume = Machine(), Volume("pool", "image")
    node_of(machine).give(KEY, volume, host_nqn("c0"))
    [argv] = machine.ran
    assert {f"--hostnqn={host_nqn('c0')}", f"--subsysnqn={volume.nqn}", f"--keydata={KEY}", "--insert"} < set(argv)


def test_a_key_that_is_refused_is_not_told() -> None:
    with pytest.raises(LabBroken) as raised:
        node_of(Machine(code=22)).give(KEY, Volume("pool", "image"), host_nqn("c0"))
    assert KEY not in str(raised.value)
    assert "KEY" in raised.value.detail


@pytest.mark.parametrize("tls", [True, False])
def test_a_port_that_takes_nothing_but_tls_says_so_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    kernel = Kernel()
    monkeypatch.setattr(nvmet_program, "put", kernel.put)
    monkeypatch.setattr(nvmet_program, "link", kernel.link)
    nvmet_program.serve(tmp_path, {**WANTED, "tls": tls})
    said = {name: kernel.values.get(name) for name in ("addr_tsas", "addr_treq")}
    assert said == ({"addr_tsas": "tls1.3", "addr_treq": "required"} if tls else dict.fromkeys(said))
    if tls:
        assert kernel.asked.index("addr_trtype") < kernel.asked.index("addr_tsas") < kernel.asked.index("subsystems")


@pytest.mark.parametrize("tls", [True, False])
def test_an_initiator_asks_for_tls_only_where_it_is_wanted(*, tls: bool) -> None:
    machine = nodes.Machine("c0", {"connect": {"refused": "no"}})
    cluster = nodes.cluster_of(machine, nodes.Machine("c1"))
    asking = Initiator(cluster, "c0", Connecting(tls=tls))
    assert asking.refused(VOLUME, KernelGateway(cluster, "c1", CONTROLLERS[0])) == "no"
    assert machine.asked[0]["options"].get("tls", False) is tls
