"""A run's network: a namespace of its own with a bridge, kept alive by a process. Nothing outside can reach it."""

import ipaddress
import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.process import Command, LocalProcess, recall
from cephlab.lab.base.runs import write_json

POOL = ipaddress.IPv4Network("10.78.0.0/16")
KEEPER = Path(__file__).with_name("keeper.py")
KEEPER_ADDRESS = "169.254.77.1"
BRIDGE = "lab"
PROGRAMS = ("unshare", "nsenter", "ip")
"""Programs of this machine that a network namespace for guests needs."""
TUN = Path("/dev/net/tun")

_FIRST = 10  # the bridge has .1; the others below are for what tests add to the network
_READY_S = 15.0
_RECORD = "keeper.json"
_SOCKET = "keeper"


def privileged() -> bool:
    """Whether a network namespace needs no user namespace around it."""
    return os.geteuid() == 0


def obstacle() -> Unavailable | None:
    """Why a network of its own is impossible here, or None. Tries it with a temporary namespace. Needs PROGRAMS."""
    if not os.access(TUN, os.R_OK | os.W_OK):
        hint = "load the module tun: modprobe tun"
        if TUN.exists():
            hint = f"let this user open it (as root: chmod 666 {TUN}), or run it as root"
        return Unavailable(f"{TUN} cannot be opened", "guests' interfaces are made with it", hint)
    tried = process.run((*_unshare(), "ip", "tuntap", "add", "dev", "probe", "mode", "tap"), check=False)
    if tried.code != 0:
        hint = (
            "give root the capabilities CAP_SYS_ADMIN and CAP_NET_ADMIN"
            if privileged()
            else "allow user namespaces for ordinary users, or run it as root"
        )
        return Unavailable("a network namespace with an interface cannot be made", tried.stderr.strip(), hint)
    return None


def _unshare() -> tuple[str, ...]:
    return ("unshare", "--net") if privileged() else ("unshare", "--user", "--map-root-user", "--net")


class Network:
    """A run's network. folder: has its socket and its keeper's record; marks: on every process of the run."""

    def __init__(self, folder: Path, subnet: str, marks: Mapping[str, str]) -> None:
        self.folder = folder
        self.subnet = ipaddress.IPv4Network(subnet)
        self._marks = dict(marks)

    def make(self) -> None:
        """Start the keeper and set the bridge up; LabBroken when either fails."""
        self.folder.mkdir(parents=True, exist_ok=True)
        argv = (*_unshare(), sys.executable, "-I", str(KEEPER), str(self.folder), _SOCKET)
        log = self.folder / "keeper.log"
        started = process.start_detached(argv, log=log, env=self._marks)
        write_json(self.folder / _RECORD, started.ref)

        def ready() -> bool:
            if not started.alive():
                raise LabBroken("the network's keeper ended", log.read_text(errors="replace"))
            return b"ready\n" in log.read_bytes()

        clock.wait(
            ready,
            bool,
            what="the start of the network's keeper",
            timeout_s=_READY_S,
            interval_s=0.01,
            timed_out=lambda what, seconds, _last: LabBroken(
                f"{what} took more than {seconds:g} s", log.read_text(errors="replace")
            ),
        )
        self.ip(
            [
                "link set lo up",
                f"link add {BRIDGE} type bridge forward_delay 0",
                f"addr add {self.subnet[1]}/{self.subnet.prefixlen} dev {BRIDGE}",
                f"link set {BRIDGE} up",
            ]
        )

    @property
    def _keeper(self) -> LocalProcess:
        try:
            keeper = recall(json.loads((self.folder / _RECORD).read_text()))
        except FileNotFoundError as error:
            raise LabBroken("the run has no network", str(error)) from error
        if not keeper.alive():
            raise LabBroken("the run's network is gone, because its keeper ended", hint="remove the run: cephlab down")
        return keeper

    def inside(self, folder: Path | None = None) -> tuple[str, ...]:
        """The words to put before a command so that it runs in the network, and in a working directory."""
        user = () if privileged() else ("--user", "--preserve-credentials")
        where = (f"--wd={folder}",) if folder else ()
        return ("nsenter", *user, "--net", "--target", str(self._keeper.pid), *where, "--")

    def ip(self, commands: Iterable[str]) -> None:
        """Run commands of `ip` in the network, as one batch."""
        batch = "".join(f"{command}\n" for command in commands)
        command = Command((*self.inside(), "ip", "-batch", "-"), shown=("ip", "-batch", batch))
        process.run_command(command, stdin=batch.encode())

    def add_guest(self, index: int) -> None:
        """Make a guest's interfaces: one on the bridge, and one only for its agent, with a fixed neighbour entry."""
        lab, control = interfaces(index)
        self.ip(
            [
                f"tuntap add dev {lab} mode tap",
                f"link set {lab} master {BRIDGE}",
                f"link set {lab} up",
                f"tuntap add dev {control} mode tap",
                f"addr add {KEEPER_ADDRESS} peer {control_address(index)} dev {control}",
                f"link set {control} up",
                f"neigh add {control_address(index)} lladdr {mac(control_address(index))} nud permanent dev {control}",
            ]
        )

    def attach(self, index: int, *, attached: bool) -> None:
        """Put a guest's interface on the bridge or take it off. Its agent stays reachable."""
        lab, _ = interfaces(index)
        self.ip([f"link set {lab} master {BRIDGE}" if attached else f"link set {lab} nomaster"])

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection in the network; OSError when the other end does not accept it."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            with socket.socket(socket.AF_UNIX) as keeper:
                keeper.connect(f"/proc/self/fd/{folder}/{_SOCKET}")
                keeper.sendall(f"{address} {port}\n".encode())
                answer, descriptors, _, _ = socket.recv_fds(keeper, 500, 1)
        finally:
            os.close(folder)
        if not descriptors:
            raise ConnectionError(answer[1:].decode(errors="replace") or "the network's keeper closed the connection")
        return socket.socket(fileno=descriptors[0])


def interfaces(index: int) -> tuple[str, str]:
    """Names of a guest's interfaces in the run's namespace: on the bridge, and for the agent."""
    return f"lab{index}", f"control{index}"


def control_address(index: int) -> str:
    """Where a guest's agent listens."""
    return str(ipaddress.IPv4Address("169.254.78.0") + index)


def mac(address: str) -> str:
    """A MAC address made from an IPv4 address."""
    return "02:4c:" + ipaddress.IPv4Address(address).packed.hex(":")


def free_subnet(taken: Sequence[str]) -> str:
    """The pool's first /24 that no run of the home has. Namespaces separate the runs of other homes."""
    subnet = next((net for net in POOL.subnets(new_prefix=24) if str(net) not in taken), None)
    if subnet is None:
        raise LabBroken("no subnet is left", f"all of {POOL} are taken", "run `cephlab prune`")
    return str(subnet)


def number_of(subnet: ipaddress.IPv4Network) -> int:
    """Which /24 of the pool it is, counted from 0."""
    return (int(subnet.network_address) - int(POOL.network_address)) >> 8


def address_of(subnet: ipaddress.IPv4Network, index: int) -> str:
    """Address of the guest with an index, counted from 0."""
    return str(subnet[_FIRST + index])
