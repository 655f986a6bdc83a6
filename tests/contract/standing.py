"""A cluster of the lab's own that stands in for one that was there before: entered by ssh, its daemons kept by units.

A stand-in for `systemctl` is in front of PATH on every machine; it hands what it is told to the process of the test,
which asks its own cluster. What systemd and cephadm themselves do is not shown by it.
"""

import ipaddress
import json
import secrets
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.attach.cluster import AttachedCluster, attach_cluster
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.gateway import Gateway, gateway
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.cluster.raising import raise_cluster
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images, Provider
from cephlab.lab.providers.container import ContainerProvider
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.providers.local.programs import Programs
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.spec.inventory import load_inventory
from tests.contract.yard import Kind, Spot, Yard, containers, skip_without, yard

TOPOLOGY = Topology(native=2, foreign=1, clients=True)

# In bash alone: it is asked often, and an emulated machine takes its time for anything larger.
SYSTEMCTL = """#!/bin/bash
exec 3<>/dev/tcp/{address}/{port} || exit 1
printf '%s\\n' {word} {node} "$@" '' >&3
read -r code <&3
IFS= read -r -d '' said <&3
[[ $code == 0 ]] || exec >&2
printf '%s' "$said"
exit "$code"
"""


@dataclass(frozen=True)
class Standing:
    """cluster: the lab's own view, beside which an attached one can be held; told: every command to a systemctl."""

    cluster: OwnCluster
    yard: Yard
    told: list[tuple[str, ...]]

    @property
    def inventory(self) -> Path:
        return self.yard.inventory

    def changes(self) -> list[tuple[str, ...]]:
        """Commands to a systemctl that were not questions."""
        return [words for words in self.told if words[1] not in ("list-units", "show")]


class _Server(socketserver.ThreadingTCPServer):
    """Listens on an address of the lab's alone, and heeds who knows the word.

    The machines may be containers, which reach no socket in a file of this machine's.
    """

    daemon_threads = True

    def __init__(self, address: str, cluster: OwnCluster, told: list[tuple[str, ...]]) -> None:
        super().__init__((address, 0), _Handler)
        self.cluster = cluster
        self.told = told
        self.word = secrets.token_hex(16)

    def stand_in(self, node: str) -> str:
        """The text of a machine's systemctl."""
        address, port = self.server_address[:2]
        return SYSTEMCTL.format(address=address, port=port, word=self.word, node=node)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        told = [line.decode().rstrip("\n") for line in takewhile(lambda line: line != b"\n", self.rfile)]
        if told[:1] == [self.server.word]:
            _, node, *words = told
            self.server.told.append((node, *words))
            code, said = _systemctl(self.server.cluster, node, words)
            self.wfile.write(f"{code}\n{said}".encode())


def _systemctl(cluster: OwnCluster, node: str, words: list[str]) -> tuple[int, str]:
    """What the systemctl of a machine answers, and does: its status and its words."""
    units = {f"ceph-{name.replace('.', '@', 1)}.service": name for name in cluster.daemons}
    here = {unit: name for unit, name in units.items() if cluster.host_of(name).name == node}
    if words[0] == "list-units":
        return 0, json.dumps([_listed(cluster, unit, name) for unit, name in here.items()])
    verb, *options, unit = words
    if unit not in here:
        return 5, f"Unit {unit} not loaded.\n"
    if verb == "show":
        return 0, f"{_pid_there(cluster.daemon(here[unit]))}\n"
    _act(cluster, here[unit], verb, options)
    return 0, ""


def _pid_there(daemon: Daemon) -> int:
    """The pid of a daemon on its own machine, 0 if it has none. A container has pids of its own."""
    if not daemon.alive():
        return 0
    status = Path(f"/proc/{daemon.started().pid}/status").read_text()
    return int(next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:")))


def _listed(cluster: OwnCluster, unit: str, name: str) -> dict[str, str]:
    active = "active" if cluster.daemon(name).alive() else "inactive"
    return {"unit": unit, "load": "loaded", "active": active, "sub": "running", "description": name}


def _act(cluster: OwnCluster, name: str, verb: str, options: list[str]) -> None:
    if verb == "start":
        cluster.start(name)
    elif verb == "stop" and cluster.daemon(name).alive():
        cluster.stop(name)
    elif verb == "kill":
        {"SIGKILL": cluster.kill, "SIGSTOP": cluster.pause, "SIGCONT": cluster.resume}[options[0].partition("=")[2]](
            name
        )


@contextmanager
def standing(kind: Kind, home: Home, images: Images, folder: Path, topology: Topology = TOPOLOGY) -> Iterator[Standing]:
    """Raise the cluster, and an sshd on every machine's own address; gone when the block is left.

    Machines are loopback addresses with the programs of an image, or containers.
    """
    skip_without(kind, list(images))
    runs = Runs(home)
    provider: Provider = LocalProvider() if kind is Kind.LOOPBACK else ContainerProvider()
    run = runs.create(provider.name)
    told: list[tuple[str, ...]] = []
    try:
        with raise_cluster(provider, topology.spec(DEFAULT_RELEASE), images, run) as cluster, ExitStack() as undo:
            cluster.wait_healthy()
            cluster.write_client_files()
            server = undo.enter_context(_Server(_here(kind, cluster), cluster, told))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            undo.callback(server.shutdown)
            conf, keys = cluster.client_files
            access = {"conf": str(conf), "keyring": str(keys)}
            if kind is Kind.LOOPBACK:
                spots = [_with_programs(_spot(cluster, name), server, images, folder) for name in cluster.hosts]
                bare_machines = undo.enter_context(yard(folder / "yard", spots, access))
            else:
                spots = [_with_systemctl(_spot(cluster, name), server, cluster.hosts[name]) for name in cluster.hosts]
                ground = containers(cluster.hosts, home, images)
                bare_machines = undo.enter_context(yard(folder / "yard", spots, access, ground))
            yield Standing(cluster, bare_machines, told)
    finally:
        runs.forget(run)


def _here(kind: Kind, cluster: OwnCluster) -> str:
    """This machine's own address in the lab: of a network of containers it is the first."""
    if kind is Kind.LOOPBACK:
        return "127.0.0.1"
    return str(next(ipaddress.IPv4Network(cluster.lab.state["subnet"]).hosts()))


def _spot(cluster: OwnCluster, name: str) -> Spot:
    host = cluster.hosts[name]
    kinds = {daemon.kind for daemon in cluster.daemons.values() if daemon.host.name == name}
    return Spot(name, host.address, host.arch, tuple(sorted(kinds)) or ("client",))


def _with_programs(spot: Spot, server: _Server, images: Mapping[Arch, Image], folder: Path) -> Spot:
    """A loopback address has no programs of its own: those of an image are put in front."""
    programs = folder / f"programs-{spot.arch}"
    if not programs.exists():
        Programs(images[spot.arch].root, spot.arch).write_wrappers(programs)
    own = folder / f"own-{spot.name}"
    own.mkdir()
    systemctl = own / "systemctl"
    systemctl.write_text(server.stand_in(spot.name))
    systemctl.chmod(0o700)
    return replace(spot, path=(str(own), str(programs)))


def _with_systemctl(spot: Spot, server: _Server, host: Host) -> Spot:
    own = host.directory / "systemd"
    host.push(server.stand_in(spot.name).encode(), own / "systemctl", mode=0o700)
    return replace(spot, path=(str(own),))


@contextmanager
def attached(
    stands: Standing, home: Home, path: Path | None = None, **permit: frozenset[str]
) -> Iterator[AttachedCluster]:
    """Attach to it as a run of its own. path: another inventory than its own."""
    runs = Runs(home)
    run = runs.create("ssh")
    try:
        inventory = load_inventory(path or stands.inventory)
        with attach_cluster(inventory, Permit(**permit), run, progress=print) as cluster:  # type: ignore[arg-type]
            yield cluster
    finally:
        runs.forget(run)


@contextmanager
def serving_s3(stands: Standing) -> Iterator[tuple[Path, Gateway]]:
    """(an inventory that names a gateway, that gateway), which runs on n0 inside the block."""
    with gateway(stands.cluster, "n0", PoolKind("replicated", 2)) as door:
        path = stands.inventory.with_name("with-s3.toml")
        keys = {"access_key": door.access_key, "secret_key": door.secret_key}
        path.with_name("s3.json").write_text(json.dumps(keys))
        table = f'[s3]\nendpoints = ["{door.address}"]\nkeys = "s3.json"\n'
        path.write_text(f"{stands.inventory.read_text()}\n{table}")
        yield path, door


def buckets_of(stands: Standing) -> list[str]:
    """All buckets of the cluster, whoever owns them."""
    node = stands.cluster.client.host.name
    names: list[str] = json.loads(stands.cluster.tool(node, "radosgw-admin", "bucket", "list"))
    return names
