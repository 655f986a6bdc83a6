"""The series of a cluster: what is asked of its Prometheus, what becomes of the answers, and what is left out."""

import json
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.process import Result
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.attach.exporters import Watcher
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry import tsdb
from cephlab.lab.telemetry.tsdb import POINTS, QUERIES, drawn, lines, server_of, snapshot


class Server:
    """A Prometheus that answers every query with one series, and keeps what it was asked. wrong: what it says else."""

    id = "n0"
    kind = "prometheus"

    def __init__(self, kind: str = "prometheus", *, alive: bool = True) -> None:
        self.kind = kind
        self.alive = lambda: alive
        self.host = SimpleNamespace(
            address="127.1.0.1", directory=PurePosixPath("/n0"), run=self.run, read=self.read, remove=self.remove
        )
        self.asked: list[tuple[list[str], Any]] = []
        self.removed: list[str] = []

    def run(self, argv: list[str], *, stdin: bytes, **_: Any) -> Result:
        self.asked.append((argv[3:], json.loads(stdin) if stdin else None))
        labels = {"mode": "user", "node": "n0", "job": "exporter", "ceph_daemon": "osd.0"}
        result = {"metric": labels, "values": [[5.0, "2"]]}
        return Result(tuple(argv), 0, json.dumps([[result]] * len(QUERIES)).encode(), b"")

    def read(self, path: PurePosixPath) -> bytes:
        return str(path).encode()

    def remove(self, path: PurePosixPath) -> None:
        self.removed.append(str(path))


def found(server: Server) -> tsdb.Server:
    made = server_of(cast("Cluster", SimpleNamespace(daemons={"prometheus.n0": server})))
    assert made is not None
    return made


def test_every_query_becomes_a_line_under_its_own_panel() -> None:
    made = drawn(found(Server()), 100.0, 200.0)
    assert [each.panel for each in made] == [query.panel for query in QUERIES]
    assert {each.points for each in made} == {((5.0, 2.0),)}
    assert {"user", "osd.0", "n0"} <= {each.label for each in made}


@pytest.mark.parametrize(("seconds", "step_s", "window"), [(60.0, 5.0, "30s"), (36_000.0, 120.0, "480s")])
def test_a_long_run_has_no_more_points_and_no_hole_between_its_windows(
    seconds: float, step_s: float, window: str
) -> None:
    server = Server()
    drawn(found(server), 0.0, seconds)
    ((words, asked),) = server.asked
    assert words == ["ranges", "http://127.1.0.1:9090/api/v1"]
    assert asked["step"] == step_s
    assert seconds / asked["step"] <= POINTS
    assert any(f"[{window}]" in query for query in asked["queries"])
    assert not any("$w" in query for query in asked["queries"])


def test_what_is_no_number_is_no_point_and_a_line_without_any_is_none() -> None:
    values = [[5, "1"], [10, "NaN"], [15, "+Inf"], [20, "4"]]
    first, second = {"metric": {"mode": "user"}, "values": values}, {"metric": {"mode": "idle"}, "values": [[5, "NaN"]]}
    (line,) = lines([[first, second], *([[]] * (len(QUERIES) - 1))])
    assert (line.label, line.points) == ("user", ((5.0, 1.0), (20.0, 4.0)))


def test_a_snapshot_leaves_nothing_behind() -> None:
    server = Server()
    assert snapshot(found(server)) == b"/n0/prometheus.n0/snapshot.tar.gz"
    assert server.removed == ["/n0/prometheus.n0/snapshot.tar.gz", "/n0/prometheus.n0/tsdb/snapshots"]


@pytest.mark.parametrize(
    ("kind", "alive", "asked"), [("prometheus", True, True), ("prometheus", False, False), ("osd", True, False)]
)
def test_a_server_is_asked_where_one_runs(kind: str, alive: bool, asked: bool) -> None:
    cluster = SimpleNamespace(daemons={"x": Server(kind, alive=alive)})
    assert (server_of(cast("Cluster", cluster)) is not None) is asked


def test_a_cluster_that_exists_is_watched_from_this_machine(tmp_path: Path) -> None:
    cluster = object.__new__(AttachedCluster)
    cluster.watcher = Watcher("http://127.0.0.1:1/api/v1", PurePosixPath(tmp_path))
    server = server_of(cluster)
    assert server is not None
    assert server.api == "http://127.0.0.1:1/api/v1"

    folder, file = PurePosixPath(tmp_path / "folder"), PurePosixPath(tmp_path / "file")
    server.machine.run(("mkdir", str(folder)), timeout_s=5, stdin=b"")
    server.machine.run(("tee", str(file)), timeout_s=5, stdin=b"kept")
    assert server.machine.read(file) == b"kept"
    for each in (folder, file):
        server.machine.remove(each)
    assert list(tmp_path.iterdir()) == []
