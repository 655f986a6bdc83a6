"""What is read of a daemon: its own process, files of its host, an OSD's accounts; one that is gone is left out."""

import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.memory import Footprint
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import daemons
from cephlab.lab.telemetry.daemons import read_daemons, require_read

SIZES = {
    "/var/log/osd.0": 5,
    "/n/log/osd.0.log": 700,
    "/n/log/mon.a.log": 30,
    "/n/log/mon.a.out": 4,
    "/n/log/mgr.b.log": 9,
}
DUMPS = {
    "dump_mempools": {"mempool": {"by_pool": {"bluestore_alloc": {"bytes": 1000}, "osdmap": {"bytes": 24}}}},
    "perf dump": {"osd": {"op": 5, "subop": 2}, "bluefs": {"db_used_bytes": 64}},
}


class Host:
    """Answers `stat` and `du` as a host would."""

    name, directory = "a", PurePosixPath("/n")

    def __init__(self, store: str = "4096\t/n/mon.a/store.db\n", data: str = "/n/mon.a") -> None:
        self.store = store
        self.data = data

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        program, *words = argv
        if program == "du":
            assert words == ["--summarize", "--bytes", f"{self.data}/store.db"]
            return Result(tuple(argv), 1, self.store.encode(), b"gone")
        assert (program, words[:2]) == ("stat", ["-c", "%s"])
        said = "".join(f"{SIZES[path]}\n" for path in words[2:] if path in SIZES)
        return Result(tuple(argv), 0, said.encode(), b"")


def daemon(name: str, host: Host, pid: int) -> SimpleNamespace:
    kind, _, ident = name.partition(".")
    logs = {part: PurePosixPath(f"/n/log/{name}.{end}") for part, end in (("log", "log"), ("output", "out"))}
    return SimpleNamespace(name=name, kind=kind, id=ident, host=host, started=lambda: SimpleNamespace(pid=pid), **logs)


def cluster(*daemons: SimpleNamespace) -> Cluster:
    client = SimpleNamespace(tell=lambda name, prefix: DUMPS[prefix])
    made = SimpleNamespace(daemons={each.name: each for each in daemons}, client=client, osd_ids=list)
    return cast("Cluster", made)


def test_an_osd_has_its_accounts_and_a_monitor_its_store() -> None:
    host = Host()
    seen = read_daemons(cluster(daemon("osd.0", host, os.getpid()), daemon("mon.a", host, os.getpid())))
    osd, mon = seen["osd.0"], seen["mon.a"]
    assert (osd.log_bytes, osd.accounted, osd.store_bytes) == (700, 1024, 0)
    assert osd.beyond == osd.footprint.resident - 1024
    assert osd.counters["osd.op"] == 5
    assert (mon.log_bytes, mon.store_bytes, mon.accounted) == (34, 4096, 0)
    assert osd.cpu_s > 0


def test_a_daemon_that_has_ended_is_left_out() -> None:
    gone = 2**22 + 1  # beyond the kernel's highest pid
    assert sorted(read_daemons(cluster(daemon("osd.0", Host(), gone), daemon("mgr.a", Host(), os.getpid())))) == [
        "mgr.a"
    ]


def test_a_store_that_cannot_be_read_is_a_gap_of_its_monitor() -> None:
    assert read_daemons(cluster(daemon("mon.a", Host(store=""), os.getpid()))) == {}


def test_what_nobody_foresaw_is_not_hidden() -> None:
    with pytest.raises(AttributeError):
        read_daemons(cluster(SimpleNamespace(name="osd.0", kind="osd")))


TOLD = {("osd.0", "log_file"): "/var/log/osd.0", ("mon.a", "log_file"): "/n/log/mon.a.log", ("mon.a", "mon_data"): "/m"}


class Attached(AttachedCluster):
    """A cluster that exists. Its daemons tell where their files are, except a manager."""

    log_to_file = "true"

    def __init__(self, *members: SimpleNamespace) -> None:
        self.members = {each.name: cast("Daemon", each) for each in members}

    @property
    def daemons(self) -> dict[str, Daemon]:
        return self.members

    @property
    def client(self) -> RadosClient:
        return cast("RadosClient", self)

    def osd_ids(self, *_: Any) -> list[int]:
        return []

    def tell(self, name: str, prefix: str, var: str = "") -> Any:
        own = {"log_to_file": self.log_to_file}.get(var) or TOLD.get((name, var), "")
        return {var: own} if prefix == "config get" else DUMPS[prefix]


def test_files_of_a_cluster_that_exists_lie_where_its_daemons_say(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(data="/m")
    cluster = Attached(*(daemon(name, host, os.getpid()) for name in ("osd.0", "mon.a", "mgr.b")))
    require_read(cluster, cluster.daemons.values())
    seen = read_daemons(cluster)
    assert {name: each.log_bytes for name, each in seen.items()} == {"osd.0": 5, "mon.a": 30, "mgr.b": 9}
    assert seen["mon.a"].store_bytes == 4096
    monkeypatch.delitem(SIZES, "/var/log/osd.0")
    with pytest.raises(Unavailable, match=r"osd\.0 of the attached cluster cannot be looked at: the log of osd"):
        require_read(cluster, cluster.daemons.values())
    assert sorted(read_daemons(cluster)) == ["mgr.b", "mon.a"]


@pytest.mark.parametrize(
    ("path", "why"), [("", "that of mon.a is empty"), ("/n/log/all", "that of mon.a is /n/log/all")]
)
def test_a_log_that_is_not_known_is_not_taken_for_one_that_does_not_grow(
    path: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty path would mean the folder of the program, whose size never changes."""
    monkeypatch.setitem(TOLD, ("mon.a", "log_file"), path)
    monkeypatch.setitem(SIZES, path or ".", 4096)
    cluster = Attached(*(daemon(name, Host(data="/m"), os.getpid()) for name in ("mgr.b", "mon.a")))
    with pytest.raises(Unavailable, match=r"mgr\.b of the attached .*: no log_file of mgr\.b is known") as refused:
        require_read(cluster, cluster.daemons.values())
    assert refused.value.detail == why
    assert set(read_daemons(cluster)) == ({"mon.a"} if path else set())


def test_a_log_that_goes_elsewhere_is_not_taken_for_one_that_does_not_grow() -> None:
    cluster = Attached(daemon("osd.0", Host(), os.getpid()))
    cluster.log_to_file = "false"
    with pytest.raises(Unavailable, match=r"osd\.0 of the attached cluster .*: its log is not written to a file"):
        require_read(cluster, cluster.daemons.values())


def test_a_process_that_hides_its_files_is_not_taken_for_one_without(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Attached(daemon("osd.0", Host(), os.getpid()))
    monkeypatch.setattr(daemons, "footprint", lambda _daemon: Footprint(1 << 20, 3, 0))
    with pytest.raises(Unavailable, match="its open files are hidden"):
        require_read(cluster, cluster.daemons.values())


def test_only_a_cluster_that_exists_is_asked_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(daemons, "_read", lambda _cluster, each: asked.append(each.name))
    require_read(cluster(), [cast("Daemon", daemon("mon.a", Host(store=""), os.getpid()))])
    assert asked == []
