"""Keeps the stores of a healthy cluster, and raises identical clusters from them with new keys."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import CephTrouble, CommandTimedOut, LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import write_json
from cephlab.lab.ceph import conf, keyring
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon, stopped
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.deploy import packages
from cephlab.lab.cluster.deploy.packages import Deployer, Deployment, OsdPlan
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.host import Host, files_are_here
from cephlab.lab.services import mgr, mon, osd
from cephlab.lab.spec.clusterspec import ClusterSpec, Node
from cephlab.lab.spec.specfile import spec_to_json

LIFE_S = 12 * 3600.0
"""Half of osd_scrub_min_interval. Older stores would be scrubbed as soon as their cluster is up."""
MOST = 32
"""How many clusters' stores are kept; the oldest are removed first. The stores of three OSDs take 5 MB."""

STILL_S = 1.5
"""Longest pause of the daemons. An election takes 2 s, and the lease of a monitor lasts 5 s."""
_RECORD = "stores.json"
_SCRATCH = ".scratch-"
_COPY_S = 120.0
_EDIT_S = 120.0


@dataclass(frozen=True)
class Kept:
    """The stores of a cluster. folder: holds NODE/DAEMON and `disks`; made_at: seconds since the epoch.

    fsid: of that cluster, and of every cluster raised from it; release: oldest release whose monitors may join.
    """

    folder: Path
    fsid: str
    release: int
    made_at: float

    @property
    def age_s(self) -> float:
        return time.time() - self.made_at


class Shelf:
    """The kept stores of a home. Their name says which clusters can be raised from them."""

    def __init__(self, home: Home) -> None:
        self.folder = home.stores

    def find(self, name: str) -> Kept | None:
        """The stores of this name; None if there are none, or they are too old or not readable."""
        folder = self.folder / name
        try:
            raw = json.loads((folder / _RECORD).read_text())
            kept = Kept(folder, str(raw["fsid"]), int(raw["release"]), float(raw["made_at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return kept if 0 <= kept.age_s < LIFE_S else None

    def take(self, name: str, folder: Path) -> Kept | None:
        """As `find`, but copies them to `folder`, a new one: another process may remove the kept ones meanwhile."""
        if self.find(name) is None:
            return None
        with self._lock():
            kept = self.find(name)
            if kept is not None:
                _copy(kept.folder, folder)
        return kept and replace(kept, folder=folder)

    @contextmanager
    def doubting(self, name: str) -> Iterator[None]:
        """Turn a CephTrouble in the block into LabBroken, and remove the stores of that name.

        A cluster built from scratch may still run, so this failure proves nothing about Ceph.
        """
        try:
            yield
        except CephTrouble as error:
            with self._lock():
                shutil.rmtree(self.folder / name, ignore_errors=True)
            raise LabBroken(
                "a cluster from kept stores did not become healthy",
                f"{error.what}\n{error.detail}",
                "try again: these stores are removed, so the next cluster is built from scratch",
            ) from error

    def put(self, name: str, fill: Callable[[Path], Mapping[str, Any]]) -> None:
        """Keep what `fill` puts into the folder that it gets, and the record that it returns. Remove the oldest stores.

        Nothing is kept if `fill` fails.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock():
            self._thin(MOST - 1)
            scratch = self.folder / f"{_SCRATCH}{os.getpid()}"
            scratch.mkdir(mode=0o700)
            try:
                record = fill(scratch)
                write_json(scratch / _RECORD, {**record, "made_at": time.time()})
                shutil.rmtree(self.folder / name, ignore_errors=True)
                scratch.rename(self.folder / name)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def stale(self, most: int = MOST) -> list[str]:
        """Names of stores that are too old or not readable, and of all but the newest `most`."""
        names = [path.name for path in self.folder.glob("[!.]*") if path.is_dir()]
        usable = {name: kept.age_s for name in names if (kept := self.find(name)) is not None}
        staying = sorted(usable, key=lambda name: usable[name])[:most]
        return sorted(set(names) - set(staying))

    def thin(self, most: int = MOST) -> list[str]:
        """Remove stale stores, and half copies that killed processes left; returns the names of the stale ones."""
        if not self.folder.is_dir() or self.folder.stat().st_uid != os.getuid():  # another user's are not this user's
            return []
        with self._lock():
            return self._thin(most)

    def _thin(self, most: int) -> list[str]:
        # Whoever fills a scratch folder holds the lock, so these were left by killed processes.
        for scratch in self.folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(scratch, ignore_errors=True)
        stale = self.stale(most)
        for name in stale:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        return stale

    def _lock(self) -> FileLock:
        return FileLock(self.folder / ".lock")


def unfit(spec: ClusterSpec, hosts: Iterable[Host]) -> str:
    """Why a cluster can neither use kept stores nor keep its own; empty if it can."""
    if not all(files_are_here(host) for host in hosts):
        return "the files of its nodes are not on this machine"
    if spec.image is not None:
        return "a pulled image may change between pulls"
    if any(disk.in_memory for node in spec.nodes for disk in node.disks):
        return "its disks are in memory"
    if any(node.services for node in spec.nodes):
        return "it has daemons beyond the core"
    return ""


def name_of(provider: str, spec: ClusterSpec, images: Images, options: Mapping[str, str]) -> str:
    """Digest of everything that clusters with exchangeable stores have in common, as 32 hexadecimal digits."""
    keys = {arch.value: images[arch].key for arch in spec.archs}
    common = json.dumps([provider, spec_to_json(spec), keys, dict(options)], sort_keys=True)
    return hashlib.sha256(_code() + common.encode()).hexdigest()[:32]


@cache
def _code() -> bytes:
    """Digest of the code that makes stores. Stores made by other code are not used."""
    modules = (packages, sys.modules[__name__], conf, keyring, mon, mgr, osd)
    return hashlib.sha256(b"".join(Path(str(module.__file__)).read_bytes() for module in modules)).digest()


def keep(shelf: Shelf, name: str, deployment: Deployment, client: RadosClient) -> None:
    """Pause all daemons of a healthy cluster and copy its stores, which look as a crash at that moment leaves them.

    Raises LabError or OSError if they cannot be copied. The daemons are resumed in any case.
    """
    release = client.mon("mon dump").get("min_mon_release")
    if release is None:
        raise LabBroken("the oldest release that may join is unknown", "`mon dump` has no min_mon_release")

    def fill(folder: Path) -> Mapping[str, Any]:
        budget = clock.Deadline.after(STILL_S)
        with standing_still(list(deployment.daemons.values()), budget):
            for daemon in deployment.daemons.values():
                if daemon.kind in ("mon", "osd"):
                    _copy(Path(daemon.host.directory) / daemon.name, folder / daemon.host.name / daemon.name, budget)
                for disk in daemon.disks:
                    _copy(Path(daemon.host.disk(disk)), folder / "disks" / disk, budget)
        for daemon in deployment.daemons.values():
            if daemon.kind == "mon":
                _forget_managers(daemon.host, folder / daemon.host.name / daemon.name)
        return {"fsid": deployment.fsid, "release": int(release)}

    shelf.put(name, fill)


def _forget_managers(host: Host, data: Path) -> None:
    """Set the manager map in the copy of a monitor's store back to its first version, which names no manager.

    A monitor connects to the manager in its map as soon as it starts, and that manager belongs to another cluster.
    """
    argv = ["ceph-kvstore-tool", (data / "kv_backend").read_text().strip(), str(data / "store.db")]
    run_tool(host, [*argv, "set", "mgr", "last_committed", "ver", "1"], timeout_s=_EDIT_S)


@contextmanager
def standing_still(daemons: Sequence[Daemon], budget: clock.Deadline) -> Iterator[None]:
    """Pause the daemons inside the block. Monitors stop last, so that no OSD has a map that no monitor knows.

    NotReached if not all of them have stopped within the budget.
    """
    ordered = sorted(daemons, key=lambda daemon: daemon.kind == "mon")
    with ExitStack() as undo:
        for daemon in ordered:
            undo.callback(daemon.resume)
            daemon.pause()
            # A thread that is in a write stops only when the write ends.
            budget.wait(partial(stopped, daemon), bool, what=f"{daemon.name} stopped", interval_s=0.01)
        yield


def _copy(source: Path, target: Path, budget: clock.Deadline | None = None) -> None:
    """Copy a sparse file or a folder, sharing blocks if the filesystem can. budget: the rest of STILL_S, if limited.

    LabBroken if the copy takes longer.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    timeout_s = _COPY_S if budget is None else max(0.0, budget.remaining_s())
    try:
        process.run(["cp", "-a", "--reflink=auto", "-T", str(source), str(target)], timeout_s=timeout_s)
    except CommandTimedOut as error:
        if budget is None:
            raise
        raise LabBroken(f"copying takes longer than the {STILL_S:g} s for which daemons may stand still") from error


@dataclass(frozen=True)
class Restorer(Deployer):
    """Deploys a cluster from kept stores: with its own addresses and keys, and the fsid of the stores.

    kept: a private copy. The stores are moved out of it.
    """

    kept: Kept = field(kw_only=True)

    def make_mon(self, node: Node, monmap: bytes, entities: Mapping[str, keyring.Entity]) -> Daemon:
        host, name = self.hosts[node.name], f"mon.{node.name}"
        data, path = self._placed(host, name), host.directory / "monmap"
        host.push(monmap, path)
        host.push(keyring.render([entities["mon."]]), data / "keyring", mode=0o600)
        argv = ["ceph-mon", "-i", node.name, "-c", str(conf.conf_path(host)), "--inject-monmap", str(path)]
        daemon = self.daemon(host, name)
        run_tool(host, argv, timeout_s=_EDIT_S * self.patience, log=daemon.log)
        return daemon

    def make_store(
        self, deployment: Deployment, plan: OsdPlan, monmap: bytes, entities: Mapping[str, keyring.Entity]
    ) -> None:
        host = self.hosts[plan.node]
        data = self._placed(host, plan.name)
        host.push(keyring.render([entities[plan.name]]), data / "keyring", mode=0o600)
        for link, disk in plan.osd.parts:
            (self.kept.folder / "disks" / disk).replace(Path(host.disk(disk)))
            # The copied link points to a disk of the cluster from which the stores were copied.
            host.run(["ln", "-sfn", str(host.disk(disk)), str(data / link)])
        deployment.daemons[plan.name] = self.daemon(host, plan.name, disks=plan.osd.disks)

    def monmap_argv(self) -> list[str]:
        # Without it the monitors would agree on a release again, which takes another election.
        return [*super().monmap_argv(), "--set-min-mon-release", str(self.kept.release)]

    def connect(self, client: RadosClient, entities: Mapping[str, keyring.Entity]) -> None:
        """Replace every key. Only the key of the monitors is in files, so a client with that key does it."""
        host = self.client_host()
        path = host.directory / "mon.keyring"
        host.push(keyring.render([entities["mon."]]), path, mode=0o600)
        # Without the last two options it would use the log and the admin socket of a monitor.
        first = self.client(name="mon.", options={"keyring": str(path), "log_file": "", "admin_socket": ""})
        try:
            first.call("about", connect_s=self.connect_s)
            # The monitors have made some keys themselves, e.g. client.bootstrap-osd.
            listed = {entry["entity"]: entry for entry in first.mon("auth ls")["auth_dump"]}
            others = [
                keyring.Entity(name, keyring.new_key(entry["key"]), entry["caps"])
                for name, entry in listed.items()
                if name not in entities
            ]
            ours = [entity for entity in entities.values() if entity.name != "mon."]
            first.command("mon", "auth import", payload=keyring.render([*ours, *others]))
            self.forget_addresses(first)
        finally:
            first.close()
            host.remove(path)
        super().connect(client, entities)

    def forget_addresses(self, client: RadosClient) -> None:
        """Wait until no map names a daemon of the cluster from which the stores were copied.

        That cluster may be running, and its daemons would accept what is sent to them: both clusters have the same fsid
        and service secrets. A kept map names no manager, unless a newer map was in flight between monitors at the copy.
        """
        up = [str(osd["osd"]) for osd in client.mon("osd dump")["osds"] if osd["up"]]
        if up:
            client.mon("osd down", ids=up)
        for manager in _managers(client):
            client.mon("mgr fail", who=manager)
        clock.wait(
            lambda: (client.mon("osd stat")["num_up_osds"], _managers(client)),
            lambda named: named == (0, []),
            what="a state in which no map has a former address",
            timeout_s=_EDIT_S * self.patience,
        )

    def admit_osds(self, client: RadosClient, plans: Iterable[OsdPlan]) -> None:
        """Do nothing: the monitors already know these OSDs."""

    def _placed(self, host: Host, daemon: str) -> PurePosixPath:
        data = host.directory / daemon
        (self.kept.folder / host.name / daemon).rename(Path(data))
        return data


def _managers(client: RadosClient) -> list[str]:
    """The managers of the map. The active one comes last: if it failed first, a standby would replace it."""
    known = client.mon("mgr dump")
    return [*(standby["name"] for standby in known["standbys"]), *filter(None, [known["active_name"]])]


def restorer(deployer: Deployer, kept: Kept) -> Restorer:
    """A deployer of the same cluster that starts from kept stores."""
    return Restorer(**{item.name: getattr(deployer, item.name) for item in fields(Deployer)}, kept=kept)
