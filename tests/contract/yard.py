"""Machines to enter by ssh: an sshd of this user's own on each of some loopback addresses, and their inventory."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab import clock
from lab.arch import Arch, host_arch

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
PORT = 7422
NETWORK = "127.78.4"

CONFIG = """
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
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
    """One machine of a yard. path: folders in front of PATH there; more: lines for its sshd."""

    name: str
    address: str
    arch: Arch = field(default_factory=host_arch)
    roles: tuple[str, ...] = ("client",)
    path: tuple[Path, ...] = ()
    more: str = ""


@dataclass(frozen=True)
class Yard:
    """Running sshds. inventory: a file that names them all."""

    folder: Path
    inventory: Path
    spots: tuple[Spot, ...]
    servers: Mapping[str, subprocess.Popen[bytes]]

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"


def machines(count: int) -> list[Spot]:
    return [Spot(f"m{number}", f"{NETWORK}.{number + 1}") for number in range(count)]


@contextmanager
def yard(folder: Path, spots: Sequence[Spot], ceph: Mapping[str, str] | None = None) -> Iterator[Yard]:
    """Sshds on these addresses, their keys made anew; gone when the block is left."""
    assert SSHD is not None
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("user_key", "host_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    (folder / "authorized_keys").write_bytes((folder / "user_key.pub").read_bytes())
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    lines = [f"[{spot.address}]:{PORT} {key}\n" for spot in spots]
    (folder / "known_hosts").write_text("".join(lines))
    inventory = folder / "inventory.toml"
    inventory.write_text(inventory_text(spots, ceph))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which sshd confines its first half to
    with ExitStack() as running:
        servers = {}
        for spot in spots:
            servers[spot.name] = _start(folder, spot)
            running.callback(_end, servers[spot.name])
        for spot in spots:
            wait_listening(spot)
        yield Yard(folder, inventory, tuple(spots), servers)


def inventory_text(spots: Sequence[Spot], ceph: Mapping[str, str] | None) -> str:
    lines = [f'user = "{getpass.getuser()}"', f"port = {PORT}", 'key = "user_key"', 'known_hosts = "known_hosts"']
    lines += ['python = "/usr/bin/python3"']  # the user's own may be a version manager's
    if ceph:
        lines += ["[ceph]", *(f'{key} = "{value}"' for key, value in ceph.items())]
    for spot in spots:
        roles = ", ".join(f'"{role}"' for role in spot.roles)
        lines += ["[[hosts]]", f'name = "{spot.name}"', f'address = "{spot.address}"']
        lines += [f'architecture = "{spot.arch}"', f"roles = [{roles}]"]
        lines += [f'path = "{":".join(map(str, spot.path))}"'] if spot.path else []
    return "\n".join(lines) + "\n"


def _start(folder: Path, spot: Spot) -> subprocess.Popen[bytes]:
    config = folder / f"{spot.name}.conf"
    config.write_text(CONFIG.format(port=PORT, address=spot.address, folder=folder, more=spot.more))
    with (folder / f"{spot.name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    server.wait()


def wait_listening(spot: Spot) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((spot.address, PORT)) == 0

    clock.wait(listens, bool, what=f"the sshd of {spot.name}", timeout_s=10, interval_s=0.02)
