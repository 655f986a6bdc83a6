"""Deployer `microceph`: Ceph from the snap, on hosts with snapd.

Command lines and outputs come from MicroCeph's documentation and source, https://github.com/canonical/microceph at
v19.2.0+squid and at 79f99b5. docs/microceph.md says which of them have been run.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.base.errors import (
    CephTrouble,
    CleanUp,
    CommandFailed,
    CommandTimedOut,
    LabBroken,
    LabError,
    SpecError,
    Unavailable,
    output_of,
)
from cephlab.lab.base.process import Result
from cephlab.lab.base.progress import Progress
from cephlab.lab.providers.host import Host

SNAP = "microceph"
CONF = PurePosixPath("/var/snap/microceph/current/conf/ceph.conf")
KEYRING = PurePosixPath("/var/snap/microceph/current/conf/ceph.client.admin.keyring")
CHANNELS = {"reef": "reef/stable", "squid": "squid/stable", "tentacle": "tentacle/stable"}
"""Ceph release -> the snap's channel."""

INTERFACES = (
    "block-devices",
    "hardware-observe",
    "mount-observe",
    "load-rbd",
    "microceph-support",
    "network-bind",
    "process-control",
)
"""A snap from a file is not connected to these. MicroCeph's tests connect the same ones
(tests/scripts/actionutils.sh)."""

_UPLOADED = PurePosixPath("/var/tmp/microceph.snap")
_INSTALL_S = 900.0
_CLUSTER_S = 300.0
_DISK_S = 600.0
_SHORT_S = 60.0
_LOOP_UNIT = 1 << 20
_MEMBER = re.compile(
    r"^- (?P<name>\S+) \((?P<address>[^)]+)\)\nServices:(?P<services>.*)\nDisks: *(?P<disks>\d+)$", re.MULTILINE
)


@dataclass(frozen=True)
class Source:
    """Where the snap comes from: a channel of the store, or a file on this machine."""

    channel: str | None = None
    file: Path | None = None

    def __post_init__(self) -> None:
        if (self.channel is None) == (self.file is None):
            raise SpecError("the snap comes from a channel or from a file, not both", f"{self.channel}, {self.file}")
        if self.file is not None and not self.file.is_file():
            raise SpecError(f"{self.file} is not a file", "wanted: a snap of MicroCeph for the hosts' architecture")


@dataclass(frozen=True)
class Member:
    """A machine of the cluster, as `microceph status` shows it."""

    name: str
    address: str
    services: tuple[str, ...]
    disks: int


@dataclass(frozen=True)
class ConfiguredDisk:
    """An OSD, as `microceph disk list` shows it."""

    osd: int
    path: str


def source_for(release: str) -> Source:
    """The store's channel of a Ceph release; SpecError lists the known ones."""
    if release not in CHANNELS:
        raise SpecError(f"MicroCeph has no {release}", f"it has {', '.join(CHANNELS)}", "choose another --release")
    return Source(channel=CHANNELS[release])


def loops(size_bytes: int, count: int) -> str:
    """The argument of `disk add` for files under loop devices, in whole MiB."""
    if size_bytes <= 0 or size_bytes % _LOOP_UNIT or count < 1:
        raise SpecError("loop files must be whole MiB", f"got {count} of {size_bytes} bytes", "for example 3 of 4 GiB")
    return f"loop,{size_bytes // _LOOP_UNIT}M,{count}"


def parse_token(output: str, name: str) -> str:
    """The token of `cluster add` for a machine; LabBroken if the output has no token for it."""
    token = output.strip().rpartition("\n")[2].strip()
    try:
        claims = json.loads(base64.b64decode(token, validate=True))
    except (binascii.Error, ValueError):
        raise LabBroken(f"microceph cluster add {name} printed no token", f"{len(output)} characters") from None
    if not isinstance(claims, dict) or claims.get("name") != name:
        raise LabBroken(f"microceph cluster add {name} printed the token of another machine")
    return token


def parse_status(output: str) -> tuple[Member, ...]:
    """The members in the output of `microceph status`; LabBroken if it has no summary."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines or lines[0] != "MicroCeph deployment summary:":
        raise LabBroken("microceph status printed no summary", output)
    members: list[Member] = []
    for match in _MEMBER.finditer("\n".join(lines[1:])):
        services = tuple(service.strip() for service in match["services"].split(",") if service.strip())
        members.append(Member(match["name"], match["address"], services, int(match["disks"])))
    if len(lines) != 1 + 3 * len(members):
        raise LabBroken("microceph status printed an unknown format", output)
    return tuple(members)


@output_of("`microceph disk list`")
def parse_disks(output: str) -> tuple[ConfiguredDisk, ...]:
    """The OSDs in the output of `microceph disk list --json`."""
    rows = json.loads(output)["ConfiguredDisks"] or []
    return tuple(ConfiguredDisk(int(row["osd"]), str(row["path"])) for row in rows)


def as_root(host: Host) -> tuple[str, ...]:
    """What to put before a command that needs root: nothing for root, `sudo -n` if that works, else Unavailable."""
    if host.run(("id", "-u"), timeout_s=_SHORT_S).stdout.strip() == "0":
        return ()
    if host.run(("sudo", "-n", "true"), check=False, timeout_s=_SHORT_S).code == 0:
        return ("sudo", "-n")
    raise Unavailable(
        f"snaps on {host.name} need root",
        "the user is not root, and sudo asks for a password",
        "give another user in the inventory",
    )


def obstacle(host: Host) -> Unavailable | None:
    """Why MicroCeph cannot be installed on a host, or None. Changes nothing."""
    hint = "install and start snapd there, or leave --deploy out: packages need no snapd"
    try:
        version = host.run(("snap", "version"), timeout_s=_SHORT_S).stdout
        as_root(host)
    except Unavailable as reason:
        return reason
    except LabError as error:
        return Unavailable(f"{host.name} has no snap", error.what, hint)
    if "unavailable" in version:
        return Unavailable(f"{host.name} has snap, but snapd does not run", version.strip(), hint)
    if host.run(("snap", "list", SNAP), check=False, timeout_s=_SHORT_S).code == 0:
        return Unavailable(f"{host.name} already has MicroCeph", "it is left alone", f"snap remove {SNAP} --purge")
    return None


def remove_from(host: Host) -> None:
    """Remove the snap and all its data from a host."""
    host.run((*as_root(host), "snap", "remove", SNAP, "--purge"), timeout_s=_INSTALL_S)


class MicroCeph:
    """MicroCeph on some hosts. The first host is bootstrapped, the others join it.

    installed: the hosts on which this object began to install it and from which it did not remove it again.
    """

    def __init__(self, hosts: Sequence[Host], source: Source, progress: Progress) -> None:
        if not hosts:
            raise SpecError("MicroCeph needs a host")
        self._hosts = tuple(hosts)
        self._first = self._hosts[0]
        self._source = source
        self._progress = progress
        self.installed: list[Host] = []
        self._before: dict[str, tuple[str, ...]] = {}

    def deploy(
        self,
        disks: Mapping[str, Sequence[str]],
        *,
        rgw: Mapping[str, int] | None = None,
        begin: Callable[[], object] = lambda: None,
    ) -> None:
        """Make a cluster of hosts without Ceph. disks: host -> arguments of `disk add`; rgw: host -> port.

        Raises, before anything is installed, Unavailable if a host has no snapd or already has MicroCeph, and
        SpecError for an unknown host. begin: called once nothing of that is so, right before the first installation.
        If a step fails, everything that was installed is removed again.
        """
        for name in (*disks, *(rgw or {})):
            self._host(name)
        for host in self._hosts:
            if reason := obstacle(host):
                raise reason
        begin()
        try:
            for host in self._hosts:
                self.install(host)
            self.bootstrap()
            for host in self._hosts[1:]:
                self.join(host)
            for host in self._hosts:
                self.add_disks(host, disks.get(host.name, ()))
            for name, port in (rgw or {}).items():
                self.enable_rgw(self._host(name), port)
        except BaseException as error:
            for line in self.remove():
                error.add_note(line)
            raise

    def _host(self, name: str) -> Host:
        for host in self._hosts:
            if host.name == name:
                return host
        raise SpecError(f"there is no host {name!r}", f"hosts: {', '.join(host.name for host in self._hosts)}")

    def install(self, host: Host) -> None:
        """Install the snap from the store or from the file, and hold it at its revision."""
        self._progress(f"installing MicroCeph on {host.name}")
        self.installed.append(host)
        if self._source.file is None:
            self._root(host, "snap", "install", SNAP, "--channel", str(self._source.channel), timeout_s=_INSTALL_S)
        else:
            host.push(self._source.file, _UPLOADED)
            self._root(host, "snap", "install", "--dangerous", str(_UPLOADED), timeout_s=_INSTALL_S)
            host.remove(_UPLOADED)
            for interface in INTERFACES:
                self._root(host, "snap", "connect", f"{SNAP}:{interface}", timeout_s=_SHORT_S)
        self._root(host, "snap", "refresh", "--hold", SNAP, timeout_s=_SHORT_S)

    def bootstrap(self) -> None:
        """Make a cluster of the first host, with its address in the lab."""
        address = self._first.address
        self._microceph(self._first, "cluster", "bootstrap", "--microceph-ip", address, "--mon-ip", address)
        self._progress(f"{self._first.name} is bootstrapped")

    def join(self, host: Host) -> None:
        """Add a host under its own host name, as MicroCeph demands."""
        name = host.run(("hostname",), timeout_s=_SHORT_S).stdout.strip()
        token = parse_token(self._microceph(self._first, "cluster", "add", name).stdout, name)
        try:
            self._microceph(host, "cluster", "join", token, "--microceph-ip", host.address)
        except (CommandFailed, CommandTimedOut) as error:
            # Until the token is used, anybody can join with it, so no message shows it.
            why = error.stderr.replace(token, "TOKEN").strip()
            raise CephTrouble(f"{host.name} could not join the cluster", why) from None
        self._progress(f"{host.name} joined")

    def add_disks(self, host: Host, disks: Sequence[str]) -> None:
        """Add OSDs: all block devices in one call, and each `loop,SIZE,COUNT` in its own call."""
        devices = [disk for disk in disks if not disk.startswith("loop,")]
        calls = [[disk] for disk in disks if disk.startswith("loop,")]
        if devices:
            calls.append([*devices, "--wipe"])
        for words in calls:
            self._microceph(host, "disk", "add", *words, timeout_s=_DISK_S)
            self._progress(f"{host.name}: disks added ({' '.join(words)})")

    def enable_rgw(self, host: Host, port: int) -> None:
        """Start an object gateway on a host."""
        self._microceph(host, "enable", "rgw", "--port", str(port))

    def members(self) -> tuple[Member, ...]:
        """The machines of the cluster."""
        return parse_status(self._microceph(self._first, "status").stdout)

    def disks(self) -> tuple[ConfiguredDisk, ...]:
        """The OSDs of the cluster."""
        return parse_disks(self._microceph(self._first, "disk", "list", "--json").stdout)

    def access(self) -> tuple[bytes, bytes]:
        """The ceph.conf and the administrator's keyring of the snap."""
        conf, keyring = (self._root(self._first, "cat", str(path)).stdout.encode() for path in (CONF, KEYRING))
        return conf, keyring

    def remove(self) -> list[str]:
        """Remove the snap from every host on which this object installed it; returns errors in words."""
        clean_up = CleanUp()
        for host in tuple(self.installed):
            with clean_up.step(f"MicroCeph could not be removed from {host.name}"):
                remove_from(host)
                self.installed.remove(host)
        return clean_up.errors

    def _microceph(self, host: Host, *words: str, timeout_s: float = _CLUSTER_S) -> Result:
        return self._root(host, SNAP, *words, timeout_s=timeout_s)

    def _root(self, host: Host, *argv: str, timeout_s: float = _SHORT_S) -> Result:
        if host.name not in self._before:
            self._before[host.name] = as_root(host)
        return host.run((*self._before[host.name], *argv), timeout_s=timeout_s)
