"""Reads what each daemon has used and holds now: CPU, memory, threads, files, its log, the database of an OSD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CephTrouble, LabBroken
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.memory import Footprint, footprint, pools_of
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.services.mon import MON
from cephlab.lab.telemetry import accounting, counters

_USER_HZ = 100.0
"""Clock ticks per second in /proc/PID/stat, on every architecture of the lab (proc_pid_stat(5))."""
_ASK_S = 60.0


@dataclass(frozen=True)
class DaemonReading:
    """One daemon now. cpu_s: since it started; log_bytes: size of its log and its output.

    OSDs only: accounted: bytes that it reports as allocated; counters: see `counters.flatten`. Monitors only:
    store_bytes: size of its store on disk.
    """

    footprint: Footprint
    cpu_s: float
    log_bytes: int
    accounted: int = 0
    store_bytes: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def beyond(self) -> int:
        """Resident bytes that the daemon itself does not account for."""
        return self.footprint.resident - self.accounted


def read_daemons(cluster: Cluster) -> dict[str, DaemonReading]:
    """Daemon name -> reading; a daemon that has ended or does not answer is left out."""
    readings = {}
    for name, daemon in cluster.daemons.items():
        try:
            readings[name] = _read(cluster, daemon)
        except (LabBroken, CephTrouble):
            continue
    return readings


def _read(cluster: Cluster, daemon: Daemon) -> DaemonReading:
    held, spent_s, logged = footprint(daemon), _cpu_s(daemon), sum(sizes(daemon, (daemon.log, daemon.output)))
    if daemon.kind == "mon":
        return DaemonReading(held, spent_s, logged, store_bytes=_store_bytes(daemon))
    if daemon.kind != "osd":
        return DaemonReading(held, spent_s, logged)
    accounted = sum(pools_of(cluster.client.tell(daemon.name, "dump_mempools")).values())
    dumped = counters.of_osds(cluster, [int(daemon.id)])[int(daemon.id)]
    return DaemonReading(held, spent_s, logged, accounted=accounted, counters=dumped)


def _cpu_s(daemon: Daemon) -> float:
    process = daemon.started()
    if process.pid:
        return accounting.whole_s(process.pid)
    stat = daemon.host.read(PurePosixPath(f"/proc/{int(process.ref['pid'])}/stat")).decode(errors="replace")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _USER_HZ


def sizes(daemon: Daemon, paths: Sequence[PurePosixPath]) -> list[int]:
    """Sizes in bytes of files on the host of a daemon; missing files are left out."""
    done = daemon.host.run(["stat", "-c", "%s", *map(str, paths)], timeout_s=_ASK_S, check=False)
    return [int(word) for word in done.stdout.split()]


def _store_bytes(daemon: Daemon) -> int:
    folder = MON.data(daemon.host, daemon.id) / "store.db"
    # Files of the store come and go: `du` then exits with 1 but still prints the sum of the others.
    done = daemon.host.run(["du", "--summarize", "--bytes", str(folder)], timeout_s=_ASK_S, check=False)
    words = done.stdout.split()
    if not words:
        raise LabBroken(f"the store of {daemon.name} cannot be read", done.stderr[-500:])
    return int(words[0])
