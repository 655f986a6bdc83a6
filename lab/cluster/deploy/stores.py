"""Keeps the stores of a cluster that was healthy, and raises another like it from them with keys of its own."""

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
from cephlab.lab.base.errors import CephTrouble, LabBroken
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
"""Half of osd_scrub_min_interval: older stores would be scrubbed as soon as their cluster is up."""
MOST = 32
"""Kept at most; the oldest goes first. Those of three OSDs take 5 MB."""

STILL_S = 1.5
"""Daemons stand still for so long at most. An election takes 2 s, and a lease of a monitor lasts 5 s."""
_RECORD = "stores.json"
_SCRATCH = ".scratch-"
_COPY_S = 120.0
_EDIT_S = 120.0


@dataclass(frozen=True)
class Kept:
    """The stores of a cluster. folder: NODE/DAEMON and `disks`; fsid: of that cluster, and of all that come of them.

    release: number of the oldest release whose monitors may join; made_at: seconds since the epoch.
    """

    folder: Path
    fsid: str
    release: int
    made_at: float

    @property
    def age_s(self) -> float:
        return time.time() - self.made_at


class Shelf:
    """A home's stores, each under a name that says of what clusters they can become one."""

    def __init__(self, home: Home) -> None:
        self.folder = home.stores

    def find(self, name: str) -> Kept | None:
        """The stores of a name; None where there are none, or they are too old or not readable."""
        folder = self.folder / name
        try:
            raw = json.loads((folder / _RECORD).read_text())
            kept = Kept(folder, str(raw["fsid"]), int(raw["release"]), float(raw["made_at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return kept if 0 <= kept.age_s < LIFE_S else None

    def take(self, name: str, folder: Path) -> Kept | None:
        """As `find`, in a copy of one's own: others may remove the kept ones meanwhile. folder: a new one, for it."""
        if self.find(name) is None:
            return None
        with self._lock():
            kept = self.find(name)
            if kept is not None:
                _copy(kept.folder, folder)
        return kept and replace(kept, folder=folder)

    @contextmanager
    def doubting(self, name: str) -> Iterator[None]:
        """Turn trouble of Ceph's in the block into LabBroken, and remove the stores of that name.

        A cluster made anew may well run, so this one says nothing about Ceph.
        """
        try:
            yield
        except CephTrouble as error:
            with self._lock():
                shutil.rmtree(self.folder / name, ignore_errors=True)
            raise LabBroken(
                "a cluster from kept stores did not become healthy",
                f"{error.what}\n{error.detail}",
                "try again: these stores are removed, so the next one is made anew",
            ) from error

    def put(self, name: str, fill: Callable[[Path], Mapping[str, Any]]) -> None:
        """Keep what `fill` puts into a folder of this user's, and the record that it returns. Then remove the oldest.

        Nothing is kept when it fails.
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
        """Names of stores that are too old, and of the oldest beyond `most`."""
        names = [path.name for path in self.folder.glob("[!.]*") if path.is_dir()]
        usable = {name: kept.age_s for name in names if (kept := self.find(name)) is not None}
        staying = sorted(usable, key=lambda name: usable[name])[:most]
        return sorted(set(names) - set(staying))

    def thin(self, most: int = MOST) -> list[str]:
        """Remove what is stale, and what killed processes left half-copied; returns the names of the first."""
        if not self.folder.is_dir():
            return []
        with self._lock():
            return self._thin(most)

    def _thin(self, most: int) -> list[str]:
        # Whoever fills a scratch folder holds the lock, so these were left by killed processes.
        for scratch in self.folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(scratch, ignore_errors=True)
        gone = self.stale(most)
        for name in gone:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        return gone

    def _lock(self) -> FileLock:
        return FileLock(self.folder / ".lock")


def unfit(spec: ClusterSpec, hosts: Iterable[Host]) -> str:
    """Why a cluster cannot come from stores that were kept, or leave its own; empty if it can."""
    if not all(files_are_here(host) for host in hosts):
        return "its nodes' files are not files of this machine"
    if spec.image is not None:
        return "a pulled image may be another one next time"
    if any(disk.in_memory for node in spec.nodes for disk in node.disks):
        return "its disks are in memory"
    if any(node.services for node in spec.nodes):
        return "it has daemons beyond the core"
    return ""


def name_of(provider: str, spec: ClusterSpec, images: Images, options: Mapping[str, str]) -> str:
    """What clusters have in common whose stores are exchangeable, as 32 hexadecimal digits."""
    keys = {arch.value: images[arch].key for arch in spec.archs}
    said = json.dumps([provider, spec_to_json(spec), keys, dict(options)], sort_keys=True)
    return hashlib.sha256(_code() + said.encode()).hexdigest()[:32]


@cache
def _code() -> bytes:
    """Digest of the code that makes stores: those of another state of it are not taken."""
    modules = (packages, sys.modules[__name__], conf, keyring, mon, mgr, osd)
    return hashlib.sha256(b"".join(Path(str(module.__file__)).read_bytes() for module in modules)).digest()


def keep(shelf: Shelf, name: str, deployment: Deployment, client: RadosClient) -> None:
    """Copy the stores of a healthy cluster while all its daemons stand still, as a crash at that moment would leave it.

    Raises LabError or OSError when they cannot be copied; the daemons go on in any case.
    """
    release = client.mon("mon dump").get("min_mon_release")
    if release is None:
        raise LabBroken("the monitors do not say which release may join", "min_mon_release is not in `mon dump`")

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
    """Take a copied monitor's manager map back to the first one, which names none.

    A monitor connects to the manager of its map as soon as it starts, and that one is another cluster's.
    """
    argv = ["ceph-kvstore-tool", (data / "kv_backend").read_text().strip(), str(data / "store.db")]
    run_tool(host, [*argv, "set", "mgr", "last_committed", "ver", "1"], timeout_s=_EDIT_S)


@contextmanager
def standing_still(daemons: Sequence[Daemon], budget: clock.Deadline) -> Iterator[None]:
    """No daemon runs inside the block. Monitors stop last, so that no OSD has a map that no monitor knows.

    NotReached if they do not all stand still within the budget.
    """
    ordered = sorted(daemons, key=lambda daemon: daemon.kind == "mon")
    with ExitStack() as undo:
        for daemon in ordered:
            undo.callback(daemon.resume)
            daemon.pause()
            # A thread inside a write goes on to the write's end.
            budget.wait(partial(stopped, daemon), bool, what=f"{daemon.name} stopped", interval_s=0.01)
        yield


def _copy(source: Path, target: Path, budget: clock.Deadline | None = None) -> None:
    """Copy a file or folder with its holes; a filesystem that can share blocks does so. budget: for it, if any."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    timeout_s = _COPY_S if budget is None else max(0.0, budget.remaining_s())
    process.run(["cp", "-a", "--reflink=auto", "-T", str(source), str(target)], timeout_s=timeout_s)


@dataclass(frozen=True)
class Restorer(Deployer):
    """Deploys a cluster from kept stores: with its own addresses and keys, and the fsid of the stores.

    kept: a copy of its own, out of which the stores are moved.
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
            # The copied one leads to the disk of the cluster that the stores are of.
            host.run(["ln", "-sfn", str(host.disk(disk)), str(data / link)])
        deployment.daemons[plan.name] = self.daemon(host, plan.name, disks=plan.osd.disks)

    def monmap_argv(self) -> list[str]:
        # Without it the monitors would agree on a release once more, with another election.
        return [*super().monmap_argv(), "--set-min-mon-release", str(self.kept.release)]

    def connect(self, client: RadosClient, entities: Mapping[str, keyring.Entity]) -> None:
        """Make every key new. Only the monitors' own key is in files, so a client with that one does it."""
        host = self.client_host()
        path = host.directory / "mon.keyring"
        host.push(keyring.render([entities["mon."]]), path, mode=0o600)
        # Without the last two it would take the log and the socket of a monitor.
        first = self.client(name="mon.", options={"keyring": str(path), "log_file": "", "admin_socket": ""})
        try:
            first.call("about", connect_s=self.connect_s)
            # The monitors have made some of their own, such as client.bootstrap-osd.
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
        """Let no map name a daemon of the cluster that the stores are of.

        It may be running, and it would take what is sent there: fsid and the secrets of services are the same in both.
        A kept map names no manager, unless a newer one was on its way between monitors when they were copied.
        """
        up = [str(osd["osd"]) for osd in client.mon("osd dump")["osds"] if osd["up"]]
        if up:
            client.mon("osd down", ids=up)
        for manager in _managers(client):
            client.mon("mgr fail", who=manager)
        clock.wait(
            lambda: (client.mon("osd stat")["num_up_osds"], _managers(client)),
            lambda named: named == (0, []),
            what="no map that names a former address",
            timeout_s=_EDIT_S * self.patience,
        )

    def admit_osds(self, client: RadosClient, plans: Iterable[OsdPlan]) -> None:
        """Nothing: the monitors know them."""

    def _placed(self, host: Host, daemon: str) -> PurePosixPath:
        data = host.directory / daemon
        (self.kept.folder / host.name / daemon).rename(Path(data))
        return data


def _managers(client: RadosClient) -> list[str]:
    """The managers of the map. The active one is last: where it fails first, another takes its place."""
    known = client.mon("mgr dump")
    return [*(standby["name"] for standby in known["standbys"]), *filter(None, [known["active_name"]])]


def restorer(deployer: Deployer, kept: Kept) -> Restorer:
    """A deployer of the same cluster that takes its stores from kept ones."""
    return Restorer(**{each.name: getattr(deployer, each.name) for each in fields(Deployer)}, kept=kept)
