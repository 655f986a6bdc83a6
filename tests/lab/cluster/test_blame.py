"""Whose fault it is when one of Ceph's own tools fails, hangs, or cannot be run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from signal import SIGKILL
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, CommandFailed, CommandTimedOut, LabBroken, LabError
from cephlab.lab.base.process import Result
from cephlab.lab.ceph import conf, keyring
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.cluster.deploy.packages import Deployer, Deployment, plan_osds
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.faults.monitors import remake_mon
from cephlab.lab.services.osd import OSD
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.layout import build_spec


@dataclass
class Host:
    """Runs nothing but fails as told."""

    error: LabError | None
    name: str = "n0"
    emulated: bool = False
    log: str = ""
    removed: list[str] = field(default_factory=list)

    def push(self, _content: bytes, _target: PurePosixPath, *, mode: int = 0o644) -> None:
        """Nothing is kept."""

    def up(self) -> bool:
        return True

    def exists(self, path: PurePosixPath) -> bool:
        return bool(self.log) and path.name == "osd.0.log"

    def read(self, _path: PurePosixPath) -> bytes:
        return self.log.encode()

    def remove(self, path: PurePosixPath) -> None:
        self.removed.append(path.name)

    def make_directory(self, _path: PurePosixPath) -> None:
        """Nothing is kept."""

    def disk(self, name: str) -> PurePosixPath:
        return self.directory / name

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/lab/n0")

    def run(self, argv: Sequence[str], **_options: Any) -> Result:
        if self.error is not None:
            raise self.error
        return Result(tuple(argv), 0, " ".join(argv).encode(), b"")


def cluster(error: LabError | None) -> OwnCluster:
    lab = SimpleNamespace(hosts={"n0": Host(error)})
    deployment = SimpleNamespace(patience=1.0, admin=SimpleNamespace(name="client.admin"))
    nothing = cast("Any", None)
    return OwnCluster(nothing, nothing, nothing, cast("Any", lab), cast("Any", deployment), nothing)


def test_a_tool_gives_its_output() -> None:
    assert cluster(None).tool("n0", "rbd", "ls") == "rbd -c /lab/n0/ceph.conf ls"


@pytest.mark.parametrize(
    "error",
    [CommandFailed(["rbd"], 5, "", "rbd: I/O error", "n0"), CommandTimedOut(["rbd"], 150, "", "rbd: slow", "n0")],
)
def test_a_tool_of_ceph_that_fails_or_hangs_is_cephs_trouble(error: LabError) -> None:
    with pytest.raises(CephTrouble, match="rbd: ") as caught:
        cluster(error).tool("n0", "rbd", "ls")
    assert caught.value.exit_code == 1


def test_a_host_that_is_down_is_the_labs() -> None:
    with pytest.raises(LabBroken, match="n0 is down"):
        cluster(LabBroken("n0 is down")).tool("n0", "rbd", "ls")


def make_store(host: Host) -> None:
    """As a deployment does for an OSD."""
    spec = build_spec([(host_arch(), 1)])
    sizing = conf.Sizing(1, 1, 1, "made up")
    deployer = Deployer(spec, cast("Any", {"n0": host}), {}, sizing, 1.0, lambda _line: None)
    (plan,) = plan_osds(spec.nodes)
    deployment = Deployment("fsid", {}, {}, sizing, 1.0, keyring.Entity("client.admin", KEY))
    deployer.make_store(deployment, plan, b"monmap", {plan.name: OSD.new_entity("0", KEY)})


MKFS = ["ceph-osd", "--mkfs"]
KEY = "AQBzyAFnAAAAABAAnWZ0J8T1s2Cw0vK5m3n4pQ=="


def test_an_osd_that_cannot_make_its_store_is_cephs_trouble_with_its_last_words() -> None:
    host = Host(
        CommandFailed(MKFS, 250, "", "** ERROR: error creating empty object store", "n0"), log="a\nbdev: no aio\n"
    )
    with pytest.raises(CephTrouble, match="ceph-osd ended with status 250") as caught:
        make_store(host)
    assert "creating empty object store" in caught.value.detail
    assert "last log lines:\na\nbdev: no aio" in caught.value.detail


@pytest.mark.parametrize("code", [127, -9, 137])
def test_what_was_not_started_or_was_killed_from_outside_is_the_labs(code: int) -> None:
    with pytest.raises(CommandFailed):
        make_store(Host(CommandFailed(MKFS, code, "", "", "n0")))


def test_a_monitor_that_cannot_make_its_store_again_is_cephs_trouble_and_its_key_does_not_stay() -> None:
    host = Host(CommandFailed(["ceph-mon", "--mkfs"], 1, "", "error opening mon data store", "n0"))
    daemon = Daemon("mon.n0", cast("Any", host), ("ceph-mon",))
    client = SimpleNamespace(command=lambda *_: b"monmap")
    cluster = SimpleNamespace(client=client, patience=1.0, daemon=lambda _name: daemon)
    with pytest.raises(CephTrouble, match="error opening mon data store"):
        remake_mon(cast("Any", cluster), "mon.n0", b"secret")
    assert host.removed == ["mon.n0", "mon.keyring"]


def test_a_daemon_that_no_signal_ends_is_the_labs_trouble() -> None:
    told: list[int] = []
    process = SimpleNamespace(signal=told.append, wait=lambda _timeout_s: False)
    daemon = Daemon("osd.0", cast("Any", Host(None)), ("ceph-osd",), process=cast("Any", process))
    with pytest.raises(LabBroken, match="did not end after SIGKILL"):
        daemon.kill()
    assert told == [SIGKILL]


def test_a_store_that_cannot_be_read_is_cephs_trouble() -> None:
    broken = Host(CommandFailed(["ceph-objectstore-tool"], 1, "", "Mount failed with (5) Input/output error", "n0"))
    daemon = Daemon("osd.0", cast("Any", broken), ("ceph-osd",))
    with pytest.raises(CephTrouble, match="Mount failed"):
        ObjectStore(daemon).dump("1.0", "object")
