"""Machines to enter by ssh, and their inventory: loopback addresses of this machine, or containers of a lab."""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from signal import SIGKILL
from typing import Protocol

import pytest

from cephlab.lab.base import clock, process
from cephlab.lab.base.home import Home
from cephlab.lab.base.probe import free_port
from cephlab.lab.base.process import Result
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.container import ContainerProvider
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec, Node
from tests.contract import sshd

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
SSH_VARIABLE = "CEPHLAB_SSH"

CONFIG = """
Port {port}
ListenAddress {address}
HostKey {key}
AuthorizedKeysFile {authorized}
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
{more}
"""


@dataclass(frozen=True)
class Spot:
    """One machine of a yard. address: empty until it has one; path: folders in front of PATH there; more: lines for its
    sshd.
    """

    name: str
    address: str = ""
    arch: Arch = field(default_factory=host_arch)
    roles: tuple[str, ...] = ("client",)
    path: tuple[str, ...] = ()
    more: str = ""


class Ground(Protocol):
    """Where machines are, and how to be on one without ssh."""

    port: int
    user: str

    def start(self, spot: Spot, folder: Path, authorized: bytes) -> tuple[str, Callable[[], None]]:
        """Start an sshd; gives its host key, as known_hosts has it, and what ends it."""
        ...

    def look(self, spot: Spot, *argv: str) -> Result: ...


@dataclass(frozen=True)
class Yard:
    """Running sshds. inventory: a file that names them all."""

    folder: Path
    inventory: Path
    spots: tuple[Spot, ...]
    ground: Ground

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def spot(self, name: str) -> Spot:
        return next(spot for spot in self.spots if spot.name == name)

    def look(self, name: str, *argv: str) -> Result:
        """Run a program on a machine by another way than ssh; whatever its status."""
        return self.ground.look(self.spot(name), *argv)

    def has(self, name: str, path: object) -> bool:
        return self.look(name, "test", "-e", str(path)).code == 0


class Loopback:
    """Addresses of this machine, each with an sshd of this user's own: one file system, one set of processes.

    Each has a port of its own, as several may be there at a time.
    """

    network = "127.78.4"

    def __init__(self) -> None:
        self.port = free_port()
        self.user = getpass.getuser()

    def start(self, spot: Spot, folder: Path, authorized: bytes) -> tuple[str, Callable[[], None]]:
        assert SSHD is not None
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # which sshd confines its first half to
        own = folder / spot.name
        own.mkdir()
        public = make_key(own / "host_key")
        (own / "authorized_keys").write_bytes(authorized)
        config = own / "config"
        config.write_text(config_text(self.port, spot, own / "host_key", own / "authorized_keys"))
        argv = [SSHD, "-D", "-e", "-f", str(config)]
        with (own / "log").open("wb") as log:
            server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def end() -> None:
            server.terminate()
            server.wait()

        return public, end

    def look(self, spot: Spot, *argv: str) -> Result:
        return process.run_command(process.Command(argv, where=spot.name), check=False)


class Containers:
    """Containers of a lab with Debian's sshd in each: addresses, files, processes and host keys of their own."""

    def __init__(self, hosts: Mapping[str, Host], archives: Mapping[Arch, Path]) -> None:
        self.port = 22
        self.user = "root"
        self._hosts = hosts
        self._archives = archives

    def start(self, spot: Spot, folder: Path, authorized: bytes) -> tuple[str, Callable[[], None]]:
        host = self._hosts[spot.name]
        sshd.install(host, self._archives[host.arch])
        key, public = sshd.host_key(host)
        host.push(authorized, key.with_name("authorized_keys"))
        config = key.with_name("config")
        text = config_text(self.port, spot, key, key.with_name("authorized_keys"))
        if host.emulated and host.arch.qemu_cpu:
            # A login does not inherit what the container was given to make its emulator quicker.
            text += f"SetEnv QEMU_CPU={host.arch.qemu_cpu}\n"
        host.push(text.encode(), config)
        argv = ("/usr/sbin/sshd", "-D", "-e", "-f", str(config))
        server = host.spawn(argv, log=key.with_name("log"))
        return public, lambda: server.signal(SIGKILL)

    def look(self, spot: Spot, *argv: str) -> Result:
        return self._hosts[spot.name].run(argv, check=False)


def config_text(port: int, spot: Spot, key: object, authorized: object) -> str:
    return CONFIG.format(port=port, address=spot.address, key=key, authorized=authorized, more=spot.more)


def make_key(path: Path) -> str:
    """Make a key pair; gives its public half, as known_hosts has it."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


@contextmanager
def yard(
    folder: Path, spots: Sequence[Spot], ceph: Mapping[str, str] | None = None, ground: Ground | None = None
) -> Iterator[Yard]:
    """Sshds on these machines, their keys made anew; gone when the block is left."""
    ground = ground or Loopback()
    folder.mkdir(parents=True, exist_ok=True)
    authorized = make_key(folder / "user_key").encode() + b"\n"
    inventory = folder / "inventory.toml"
    with ExitStack() as running:
        known = []
        for spot in spots:
            key, end = ground.start(spot, folder, authorized)
            running.callback(end)
            known.append(f"{place(spot.address, ground.port)} {key}\n")
        (folder / "known_hosts").write_text("".join(known))
        inventory.write_text(inventory_text(spots, ceph, ground))
        for spot in spots:
            wait_listening(spot, ground.port)
        yield Yard(folder, inventory, tuple(spots), ground)


def place(address: str, port: int) -> str:
    """A machine as known_hosts names it."""
    return address if port == 22 else f"[{address}]:{port}"


def inventory_text(spots: Sequence[Spot], ceph: Mapping[str, str] | None, ground: Ground) -> str:
    lines = [f'user = "{ground.user}"', 'key = "user_key"', 'known_hosts = "known_hosts"']
    lines += [f"port = {ground.port}"] if ground.port != 22 else []
    lines += ['python = "/usr/bin/python3"']  # the user's own may be a version manager's
    if ceph:
        lines += ["[ceph]", *(f'{key} = "{value}"' for key, value in ceph.items())]
    for spot in spots:
        roles = ", ".join(f'"{role}"' for role in spot.roles)
        lines += ["[[hosts]]", f'name = "{spot.name}"', f'address = "{spot.address}"']
        lines += [f'architecture = "{spot.arch}"', f"roles = [{roles}]"]
        lines += [f'path = "{":".join(spot.path)}"'] if spot.path else []
    return "\n".join(lines) + "\n"


def wait_listening(spot: Spot, port: int) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((spot.address, port)) == 0

    clock.wait(listens, bool, what=f"the sshd of {spot.name}", timeout_s=20, interval_s=0.02)


# Bare machines of either kind, for tests that need no Ceph there.


class Kind(StrEnum):
    """What stands in for machines."""

    LOOPBACK = "loopback"
    CONTAINERS = "containers"


def skip_without(kind: Kind, archs: Sequence[Arch] = ()) -> None:
    """Skip by name what this machine cannot have."""
    if shutil.which("ssh") is None:
        pytest.skip("ssh is not installed (package openssh-client)")
    if kind is Kind.LOOPBACK:
        if SSHD is None:
            pytest.skip("sshd is not installed (package openssh-server): there is nothing to enter by ssh")
        return
    if os.environ.get(SSH_VARIABLE) != "1":
        pytest.skip(f"containers are entered by ssh where {SSH_VARIABLE}=1, as `tox -e lab` has it: minutes")
    nodes = [Node(f"m{number}", arch) for number, arch in enumerate(archs or (host_arch(),))]
    first, *rest = nodes
    reason = ContainerProvider().unavailable(ClusterSpec((_head(first), *rest)))
    if reason is not None:
        pytest.skip(f"no containers to enter by ssh: {reason}")


def _head(node: Node) -> Node:
    return Node(node.name, node.arch, node.disks, mon=True, mgr=True)


@contextmanager
def machines(
    kind: Kind, folder: Path, spots: Sequence[Spot], home: Home, images: Images, *, first: int = 1
) -> Iterator[Yard]:
    """Bare machines, of this kind. first: the last number of the first one's loopback address."""
    skip_without(kind, [spot.arch for spot in spots])
    if kind is Kind.LOOPBACK:
        placed = [replace(spot, address=f"{Loopback.network}.{first + number}") for number, spot in enumerate(spots)]
        with yard(folder, placed) as bare_machines:
            yield bare_machines
        return
    runs = Runs(home)
    run = runs.create("container")
    head, *rest = (Node(spot.name, spot.arch) for spot in spots)
    try:
        with ContainerProvider().launch(ClusterSpec((_head(head), *rest)), images, run) as lab:
            placed = [replace(spot, address=lab.hosts[spot.name].address) for spot in spots]
            with yard(folder, placed, ground=containers(lab.hosts, home, images)) as bare_machines:
                yield bare_machines
    finally:
        runs.forget(run)


def containers(hosts: Mapping[str, Host], home: Home, images: Images) -> Containers:
    """Containers that are up, to have an sshd each."""
    archs = {host.arch for host in hosts.values()}
    return Containers(hosts, {arch: sshd.fetched(home, images[arch]) for arch in archs})
