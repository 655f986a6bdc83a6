"""Reads the Prometheus of a cluster: series over the time of a scenario for the report, all data for the archive."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Any, Protocol

from cephlab.lab.base.process import Result, run
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.services.prometheus import EVERY_S, PROMETHEUS

PROGRAM = Path(__file__).with_name("tsdb_program.py")
POINTS = 300
"""Largest number of points in a line."""
_WINDOW_S = 30
DOWN = "targets that are down"
_CPU = 'avg by (mode) (sum by (node, mode) (rate(node_cpu_seconds_total{mode!="idle"}[$w])))'
_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Query:
    """panel: its title, with the unit; expr: PromQL, `$w` is the window of rates; label: of its lines, formatted with
    the labels of each.
    """

    panel: str
    expr: str
    label: str


def _latency(kind: str) -> str:
    of = f"ceph_osd_op_{kind}_latency"
    return f"1000 * sum(rate({of}_sum[$w])) / sum(rate({of}_count[$w]))"


def _network(direction: str) -> str:
    return f"avg(sum by (node) (rate(node_network_{direction}_bytes_total[$w])))"


def _hits() -> str:
    hits, misses = (f"sum(rate(ceph_bluestore_onode_{word}[$w]))" for word in ("hits", "misses"))
    return f"{hits} / ({hits} + {misses})"


QUERIES = (
    Query("CPU by mode, cores, mean of nodes", _CPU, "{mode}"),
    Query("client operations a second", "sum(rate(ceph_pool_rd[$w]))", "reads"),
    Query("client operations a second", "sum(rate(ceph_pool_wr[$w]))", "writes"),
    Query("OSD operations a second", "sum by (ceph_daemon) (rate(ceph_osd_op[$w]))", "{ceph_daemon}"),
    Query("OSD latency, ms", _latency("r"), "reads"),
    Query("OSD latency, ms", _latency("w"), "writes"),
    Query("network, bytes a second, mean of nodes", _network("receive"), "received"),
    Query("network, bytes a second, mean of nodes", _network("transmit"), "sent"),
    Query("recovery, bytes a second", "sum(rate(ceph_osd_recovery_bytes[$w]))", "recovery"),
    Query("objects", "sum(ceph_num_objects_degraded)", "degraded"),
    Query("objects", "sum(ceph_num_objects_misplaced)", "misplaced"),
    Query("BlueFS, bytes used", "sum(ceph_bluefs_db_used_bytes)", "db"),
    Query("BlueFS, bytes used", "sum(ceph_bluefs_slow_used_bytes)", "slow"),
    Query("onode cache, share of hits", _hits(), "hits"),
    Query("placement groups that scrub", "sum(ceph_pg_scrubbing)", "scrub"),
    Query("memory of OSDs, bytes", "sum(ceph_prioritycache_target_bytes)", "target"),
    Query("memory of OSDs, bytes", "sum(ceph_prioritycache_mapped_bytes)", "mapped"),
    Query("temperature, degrees Celsius", "max by (node) (node_hwmon_temp_celsius)", "{node}"),
    Query("power of processors by rapl, W", "sum by (node) (rate(node_rapl_package_joules_total[$w]))", "{node}"),
    Query(DOWN, "(1 - up) > 0", "{job} of {node}"),
)
"""The queries that the report draws. A metric that a machine does not have gives no line."""


@dataclass(frozen=True)
class Drawn:
    """A line. points: (seconds since the epoch, value); values that are not numbers are left out."""

    panel: str
    label: str
    points: tuple[tuple[float, float], ...]


class Reached(Protocol):
    """A machine that a Prometheus runs on, with the calls needed here."""

    def run(self, argv: Sequence[str], /, *, timeout_s: float, stdin: bytes) -> Result: ...

    def read(self, path: PurePosixPath, /) -> bytes: ...

    def remove(self, path: PurePosixPath, /) -> None: ...


@dataclass(frozen=True)
class Server:
    """A running Prometheus. api: address of its API on its machine; data: the folder there with its store `tsdb`."""

    machine: Reached
    api: str
    data: PurePosixPath


class _Here:
    """This machine."""

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes) -> Result:
        return run(argv, timeout_s=timeout_s, stdin=stdin)

    def read(self, path: PurePosixPath) -> bytes:
        return Path(path).read_bytes()

    def remove(self, path: PurePosixPath) -> None:
        rmtree(path) if Path(path).is_dir() else Path(path).unlink()


def server_of(cluster: Cluster) -> Server | None:
    """The Prometheus that watches a cluster, if one runs: on a node, or on this machine for an existing cluster."""
    watcher = cluster.watcher if isinstance(cluster, AttachedCluster) else None
    if watcher is not None:
        return Server(_Here(), watcher.api, watcher.data)
    for daemon in cluster.daemons.values():
        if daemon.kind == PROMETHEUS.kind and daemon.alive():
            api = f"http://{daemon.host.address}:{PROMETHEUS.listens(daemon.id)}/api/v1"
            return Server(daemon.host, api, PROMETHEUS.data(daemon.host, daemon.id))
    return None


def drawn(server: Server, began_s: float, ended_s: float) -> list[Drawn]:
    """The lines of the report between two times since the epoch."""
    step_s = max(float(EVERY_S), (ended_s - began_s) / POINTS)
    window = f"{math.ceil(max(_WINDOW_S, 4 * step_s))}s"
    queries = [query.expr.replace("$w", window) for query in QUERIES]
    request = {"queries": queries, "start": began_s, "end": ended_s, "step": step_s}
    answer = _run(server, ["ranges", server.api], json.dumps(request).encode())
    return list(lines(json.loads(answer)))


def lines(results: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[Drawn]:
    """The answers to QUERIES, in the same order, as lines; a line without any number is left out."""
    for query, result in zip(QUERIES, results, strict=True):
        for series in result:
            numbers = ((float(at_s), float(value)) for at_s, value in series["values"])
            points = tuple((at_s, value) for at_s, value in numbers if math.isfinite(value))
            if points:
                yield Drawn(query.panel, query.label.format(**series["metric"]), points)


def snapshot(server: Server) -> bytes:
    """All data of a Prometheus, as a gzipped tar file with a folder `tsdb`."""
    target = server.data / "snapshot.tar.gz"
    _run(server, ["snapshot", server.api, str(server.data / "tsdb"), str(target)])
    content = server.machine.read(target)
    server.machine.remove(target)
    server.machine.remove(server.data / "tsdb" / "snapshots")
    return content


def _run(server: Server, words: Sequence[str], stdin: bytes = b"") -> str:
    argv = ["python3", "-c", PROGRAM.read_text(), *words]
    return server.machine.run(argv, timeout_s=_TIMEOUT_S, stdin=stdin).stdout
