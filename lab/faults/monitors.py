"""Faults of monitors: a wrong clock, and a lost store."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from random import Random
from typing import ClassVar, Self

from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.daemons import OneDaemon, missed
from cephlab.lab.faults.fault import Layout, Sign, health_sign
from cephlab.lab.images.shim import compiler

SKEW = "skew.c"
SKEW_VARIABLE = "CEPHLAB_SKEW_NS"
_MKFS_S = 120.0
_SECOND_NS = 10**9


class OneMonitor(OneDaemon):
    """A fault of one monitor, in a cluster with three or more."""

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        mons = layout.daemons("mon")
        return cls(rng.choice(mons)) if len(mons) >= 3 else None


@dataclass(frozen=True)
class ClockSkew(OneMonitor):
    """A monitor's clock is wrong: it is restarted with a preloaded library that moves the time of day.

    skew_s: 40 times the drift at which Ceph warns (mon_clock_drift_allowed, 0.05 s), and less than a lease of the
    monitors (5 s). Only the monitor sees the wrong time; file times come from the kernel, whose clock is right.
    """

    name: ClassVar[str] = "clock-skew"
    in_labs: ClassVar[bool] = True
    skew_s: float = 2.0

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        daemon = cluster.daemon(self.daemon)
        library = cluster.run.directory / f"libcephlab-skew-{daemon.host.arch.value}.so"
        compiler.build(daemon.host.arch, SKEW, library)
        target = daemon.host.directory / "libcephlab-skew.so"
        daemon.host.push(library, target, mode=0o755)
        preload, env = daemon.preload, daemon.env
        try:
            daemon.preload = (*preload, target)
            daemon.env = {**env, SKEW_VARIABLE: str(round(self.skew_s * _SECOND_NS))}
            _restart(cluster, daemon)
            yield
        finally:
            daemon.preload, daemon.env = preload, env
            _restart(cluster, daemon)

    def sign(self, cluster: Cluster) -> Sign:
        return health_sign(cluster, "MON_CLOCK_SKEW")


def _restart(cluster: Cluster, daemon: Daemon) -> None:
    cluster.stop(daemon.name)
    cluster.start(daemon.name)


@dataclass(frozen=True)
class LostMonStore(OneMonitor):
    """A monitor loses its store. Healing creates an empty store, and the other monitors fill it."""

    name: ClassVar[str] = "lost-mon-store"
    in_labs: ClassVar[bool] = True

    @contextmanager
    def broken(self, cluster: Cluster) -> Iterator[None]:
        secret = cluster.client.command("mon", "auth get", entity="mon.")
        try:
            cluster.kill(self.daemon)
            cluster.host_of(self.daemon).remove(self.store(cluster))
            yield
        finally:
            remake_mon(cluster, self.daemon, secret)

    def sign(self, cluster: Cluster) -> Sign:
        if cluster.host_of(self.daemon).exists(self.store(cluster)):
            return Sign("stores that are gone", 0)
        return missed(cluster, self.daemon)

    def store(self, cluster: Cluster) -> PurePosixPath:
        return cluster.host_of(self.daemon).directory / self.daemon / "store.db"


def remake_mon(cluster: Cluster, name: str, secret: bytes) -> None:
    """Recreate a monitor's store and start it; the others fill it. secret: keyring with the key of `mon.`."""
    daemon = cluster.daemon(name)
    host = daemon.host
    if daemon.alive():
        cluster.kill(name)
    data = host.directory / name
    host.remove(data)
    host.make_directory(data)
    monmap, seed = host.directory / "monmap", host.directory / "mon.keyring"
    host.push(cluster.client.command("mon", "mon getmap"), monmap)
    host.push(secret, seed, mode=0o600)
    argv = ["ceph-mon", "--mkfs", "-i", daemon.id, "-c", str(conf.conf_path(host))]
    argv += ["--monmap", str(monmap), "--keyring", str(seed)]
    try:
        run_tool(host, argv, timeout_s=_MKFS_S * cluster.patience, log=daemon.log)
    finally:
        host.remove(seed)
    cluster.start(name)
