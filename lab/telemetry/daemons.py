"""Reads what each daemon has used and holds now: CPU, memory, threads, files, its log, the database of an OSD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CephTrouble, LabBroken, Unavailable
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.memory import Footprint, footprint, pools_of
from cephlab.lab.cluster.attach.cluster import AttachedCluster
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


def require_read(cluster: Cluster, daemons: Iterable[Daemon]) -> None:
    """Unavailable, with the reason, if an existing cluster does not show what a reading of one of the daemons needs."""
    if not isinstance(cluster, AttachedCluster):
        return
    for daemon in daemons:
        try:
            if not _read(cluster, daemon).footprint.files:
                raise LabBroken("its open files are hidden", f"they are shown to root on {daemon.host.name}")
            asked, logs = _option(cluster, daemon, "log_to_file")
            if logs == "false":
                raise LabBroken("its log is not written to a file", f"log_to_file of {asked}: got false, wanted true")
        except (LabBroken, CephTrouble) as error:
            what = f"{daemon.name} of the attached cluster cannot be looked at: {error.what}"
            raise Unavailable(what, error.detail, error.hint) from error


def _read(cluster: Cluster, daemon: Daemon) -> DaemonReading:
    footprint_now, spent_s, logged = footprint(daemon), _cpu_s(daemon), _log_bytes(cluster, daemon)
    if daemon.kind == "mon":
        return DaemonReading(footprint_now, spent_s, logged, store_bytes=_store_bytes(cluster, daemon))
    if daemon.kind != "osd":
        return DaemonReading(footprint_now, spent_s, logged)
    accounted = sum(pools_of(cluster.client.tell(daemon.name, "dump_mempools")).values())
    dumped = counters.of_osds(cluster, [int(daemon.id)])[int(daemon.id)]
    return DaemonReading(footprint_now, spent_s, logged, accounted=accounted, counters=dumped)


def _cpu_s(daemon: Daemon) -> float:
    process = daemon.started()
    if process.pid:
        return accounting.whole_s(process.pid)
    stat = daemon.host.read(PurePosixPath(f"/proc/{int(process.ref['pid'])}/stat")).decode(errors="replace")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _USER_HZ


def sizes(daemon: Daemon, paths: Sequence[PurePosixPath]) -> list[int]:
    """Sizes in bytes of files on the host of a daemon; missing files are left out."""
    result = daemon.host.run(["stat", "-c", "%s", *map(str, paths)], timeout_s=_ASK_S, check=False)
    return [int(word) for word in result.stdout.split()]


def _log_bytes(cluster: Cluster, daemon: Daemon) -> int:
    if not isinstance(cluster, AttachedCluster):
        return sum(sizes(daemon, (daemon.log, daemon.output)))
    path = _path_of(cluster, daemon, "log_file")
    log_sizes = sizes(daemon, (path,))
    if not log_sizes:
        raise LabBroken(f"the log of {daemon.name} cannot be read", f"{path} on {daemon.host.name}")
    return sum(log_sizes)


def _path_of(cluster: Cluster, daemon: Daemon, option: str) -> PurePosixPath:
    """A path in a daemon's options; LabBroken if it is empty, or the same for every daemon."""
    asked, text = _option(cluster, daemon, option)
    if not text or (asked != daemon.name and asked not in text):
        raise LabBroken(f"no {option} of {daemon.name} is known", f"that of {asked} is {text or 'empty'}")
    return PurePosixPath(text.replace(asked, daemon.name))


def _option(cluster: Cluster, daemon: Daemon, option: str) -> tuple[str, str]:
    """(the daemon that was asked, the value). Only OSDs and monitors are asked; paths of others differ in the name."""
    speaker = daemon.name if daemon.kind in ("osd", "mon") else next(n for n in cluster.daemons if n.startswith("mon."))
    return speaker, str(cluster.client.tell(speaker, "config get", var=option)[option])


def _store_bytes(cluster: Cluster, daemon: Daemon) -> int:
    attached = isinstance(cluster, AttachedCluster)
    data = _path_of(cluster, daemon, "mon_data") if attached else MON.data(daemon.host, daemon.id)
    folder = data / "store.db"
    # Files of the store come and go: `du` then exits with 1 but still prints the sum of the others.
    result = daemon.host.run(["du", "--summarize", "--bytes", str(folder)], timeout_s=_ASK_S, check=False)
    words = result.stdout.split()
    if not words:
        raise LabBroken(f"the store of {daemon.name} cannot be read", result.stderr[-500:])
    return int(words[0])
