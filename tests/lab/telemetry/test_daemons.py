"""What is read of a daemon: its own process, files of its host, an OSD's accounts; one that is gone is left out."""

import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.process import Result
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry.daemons import read_daemons

SIZES = {"/n/log/osd.0.log": 700, "/n/log/mon.a.log": 30, "/n/log/mon.a.out": 4}
DUMPS = {
    "dump_mempools": {"mempool": {"by_pool": {"bluestore_alloc": {"bytes": 1000}, "osdmap": {"bytes": 24}}}},
    "perf dump": {"osd": {"op": 5, "subop": 2}, "bluefs": {"db_used_bytes": 64}},
}


class Host:
    """Answers `stat` and `du` as a host would."""

    name, directory = "a", PurePosixPath("/n")

    def __init__(self, store: str = "4096\t/n/mon.a/store.db\n") -> None:
        self.store = store

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        program, *words = argv
        if program == "du":
            assert words == ["--summarize", "--bytes", "/n/mon.a/store.db"]
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
