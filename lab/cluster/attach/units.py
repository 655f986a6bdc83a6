"""Daemons that systemd runs: finds them among a machine's units and controls them with systemctl."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from signal import Signals
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed, LabBroken, NotReached, SpecError, Unavailable
from cephlab.lab.ceph.daemon import Daemon, Wanted
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.attach.guarded import not_installed
from cephlab.lab.providers.host import Host, HostProcess

Permitted = Callable[[str, str], None]
"""(daemon, verb) -> nothing; raises NotPermitted."""

UNIT_PATTERN = "ceph*"
FRESH_S = 1.0
"""Longest time that an answer of systemd is reused. A wait checks every daemon ten times a second."""

_SYSTEMCTL_S = 120.0
_STOPPED_S = 60.0
_PACKAGED = re.compile(r"ceph-(osd|mon|mgr|mds)@(.+)\.service")
_CEPHADM = re.compile(r"ceph-([0-9a-f-]{36})@(osd|mon|mgr|mds)\.(.+)\.service")


@dataclass(frozen=True)
class Unit:
    """A unit that runs a daemon. contained: made by cephadm; its main process is the client of a container engine.

    rival: an active unit of the packages for a daemon of the same name, if this unit is not active.
    """

    name: str
    daemon: str
    active: bool
    contained: bool
    rival: str = ""


def parse_units(text: str, fsid: str) -> dict[str, Unit]:
    """Daemon -> unit, from `systemctl list-units --all --output=json` (systemd 246 and later).

    Units of other clusters are left out. Units of packages name no cluster, so a unit that names this cluster wins.
    """
    packaged: dict[str, Unit] = {}
    contained: dict[str, Unit] = {}
    for entry in json.loads(text or "[]"):
        unit = _unit(str(entry["unit"]), active=entry["active"] in ("active", "activating", "reloading"), fsid=fsid)
        if unit is not None and entry.get("load") != "not-found":
            (contained if unit.contained else packaged)[unit.daemon] = unit
    for name, unit in contained.items():
        if not unit.active and name in packaged and packaged[name].active:
            contained[name] = replace(unit, rival=packaged[name].name)
    return {**packaged, **contained}


def _unit(name: str, *, active: bool, fsid: str) -> Unit | None:
    if match := _PACKAGED.fullmatch(name):
        return Unit(name, f"{match[1]}.{match[2]}", active, contained=False)
    if (match := _CEPHADM.fullmatch(name)) and match[1] == fsid:
        return Unit(name, f"{match[2]}.{match[3]}", active, contained=True)
    return None


class SystemdUnits:
    """The units of one machine. systemd is asked again when its last answer is old."""

    def __init__(self, host: Host, fsid: str, *, sudo: bool = False, now: clock.Clock = clock.SYSTEM) -> None:
        self._host = host
        self._fsid = fsid
        self._sudo = ("sudo", "-n") if sudo else ()
        self._clock = now
        self._lock = threading.Lock()
        self._known: tuple[float, Mapping[str, Unit]] | None = None

    def all(self) -> Mapping[str, Unit]:
        """Daemon -> unit. Unavailable if there is no systemctl, or it is too old to answer in JSON."""
        with self._lock:
            if self._known is None or self._clock.monotonic() - self._known[0] > FRESH_S:
                argv = ("systemctl", "list-units", "--all", "--plain", "--no-pager", "--output=json", UNIT_PATTERN)
                self._known = (self._clock.monotonic(), parse_units(self._ask(argv), self._fsid))
            return self._known[1]

    def _ask(self, argv: Sequence[str]) -> str:
        try:
            return self._host.run(argv, timeout_s=_SYSTEMCTL_S).stdout
        except LabBroken as error:
            if not isinstance(error, CommandFailed) and not not_installed(error):
                raise  # the machine cannot be reached at all
            raise Unavailable(
                f"systemd on {self._host.name} of the attached cluster does not say which daemons it runs",
                str(error),
                "daemons can be stopped and started only if systemd 246 or later runs them",
            ) from error

    def get(self, daemon: str) -> Unit:
        """A daemon's unit; Unavailable if systemd has none."""
        units = self.all()
        if daemon not in units:
            has = ", ".join(sorted(units)) or "none"
            raise Unavailable(
                f"the attached cluster has no systemd unit on {self._host.name} for {daemon}",
                f"daemons with units: {has}",
            )
        return units[daemon]

    def refuse_rival(self, daemon: str) -> None:
        """SpecError if this cluster's unit is not active but a unit of the packages is, which may be a leftover."""
        unit = self.all().get(daemon)
        if unit is not None and unit.rival:
            raise SpecError(
                f"{daemon} has two units on {self._host.name}, and the active one may belong to another cluster",
                f"{unit.name}: not active; {unit.rival}: active",
                f"start {unit.name}, the only one that names this cluster, or `systemctl disable --now {unit.rival}`",
            )

    def main_pid(self, daemon: str) -> int:
        """The pid of a daemon on its machine; 0 while it does not run."""
        unit = self.get(daemon).name
        return int(self._ask(("systemctl", "show", "--property=MainPID", "--value", unit)).strip() or 0)

    def tell(self, *words: str) -> None:
        """A systemctl command that changes something."""
        try:
            self._host.run((*self._sudo, "systemctl", *words), timeout_s=_SYSTEMCTL_S)
        finally:
            with self._lock:
                self._known = None


@dataclass(frozen=True)
class UnitProcess:
    """A daemon's process as systemd reports it, read-only. main_pid: the pid on its machine."""

    daemon: UnitDaemon
    main_pid: int
    pid: int = 0

    @property
    def ref(self) -> dict[str, Any]:
        return {"pid": self.main_pid}

    def alive(self) -> bool:
        return self.daemon.alive()

    def exit_code(self) -> int | None:
        """None: only systemd knows it."""
        return None

    def signal(self, number: Signals) -> None:
        raise NotPermitted(f"sending {number.name} to {self.daemon.name} without systemd")

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within timeout_s seconds according to systemd."""
        try:
            clock.wait(self.alive, lambda alive: not alive, what="its end", timeout_s=timeout_s, interval_s=0.2)
        except NotReached:
            return False
        return True


@dataclass
class UnitDaemon(Daemon):
    """A daemon that systemd runs. units: of its machine; None if systemd does not run it."""

    units: SystemdUnits | None = None
    permitted: Permitted = field(default=lambda _name, _verb: None)

    def start(self) -> None:
        self.permitted(self.name, "start")
        self._units().tell("start", self._units().get(self.name).name)
        self._wait(active=True)
        self.wanted = Wanted.RUNNING

    def stop(self, *, patience: float = 1.0) -> None:
        self.permitted(self.name, "stop")
        if self.wanted is Wanted.PAUSED:
            self.resume()
        self.wanted = Wanted.STOPPED
        self._units().tell("stop", self._units().get(self.name).name)
        self._wait(active=False, patience=patience)

    def kill(self) -> None:
        """SIGKILL. Then stop the unit at once, or systemd would start the daemon again."""
        unit = self._signal("SIGKILL", "kill", Wanted.STOPPED)
        self._units().tell("stop", unit)
        self._wait(active=False)
        self._units().tell("reset-failed", unit)

    def require_killable(self) -> None:
        self._signalled("kill")

    def pause(self) -> None:
        self._signal("SIGSTOP", "pause", Wanted.PAUSED)

    def resume(self) -> None:
        self._signal("SIGCONT", "resume", Wanted.RUNNING)

    def alive(self) -> bool:
        """According to systemd. A daemon without a unit counts as alive, because Ceph's maps show when it is not."""
        if self.units is None:
            return self.wanted is not Wanted.STOPPED
        unit = self.units.all().get(self.name)
        return unit is not None and unit.active

    def accounted(self) -> HostProcess | None:
        """The unit's process; None if systemd does not run the daemon itself."""
        unit = self.units.all().get(self.name) if self.units is not None else None
        if self.units is None or unit is None or unit.contained:
            return None
        pid = self.units.main_pid(self.name)
        return UnitProcess(self, pid) if pid else None

    def started(self) -> HostProcess:
        """The unit's process; LabBroken if it is not known, because systemd does not tell it or a container has it."""
        process = self.accounted()
        if process is None:
            raise LabBroken(
                f"the process of {self.name} on {self.host.name} of the attached cluster is not known",
                "systemd tells no MainPID of its unit, or runs it in a container",
            )
        return process

    def log_tail(self, lines: int = 25) -> str:
        return f"look at {self.host.name}: journalctl -u 'ceph*{self.id}*' -n {lines}"

    def crashes(self) -> list[str]:
        """Empty. On an existing cluster `ceph crash ls` has them."""
        return []

    def _signal(self, signal: str, verb: str, wanted: Wanted) -> str:
        """Send a signal to the daemon; returns its unit."""
        name = self._signalled(verb)
        self.wanted = wanted
        self._units().tell("kill", f"--signal={signal}", name)
        return name

    def _signalled(self, verb: str) -> str:
        """The unit that a signal goes to. Unavailable if the unit's own process is not the daemon."""
        self.permitted(self.name, verb)
        unit = self._units().get(self.name)
        if unit.contained:
            raise Unavailable(
                f"{self.name} of the attached cluster runs in a cephadm container, so cephlab cannot {verb} it",
                f"a signal to unit {unit.name} would reach the container engine's client",
                "start and stop are possible",
            )
        return unit.name

    def _units(self) -> SystemdUnits:
        if self.units is None:
            raise Unavailable(f"the attached cluster has no systemd unit for {self.name} on {self.host.name}")
        return self.units

    def _wait(self, *, active: bool, patience: float = 1.0) -> None:
        clock.wait(
            self.alive,
            lambda alive: alive is active,
            what=f"{self.name} {'active' if active else 'inactive'} in systemd",
            timeout_s=_STOPPED_S * patience,
            interval_s=0.2,
        )
