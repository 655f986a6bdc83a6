"""Daemons that systemd runs: found among a machine's units, and handled through systemctl."""

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
"""How old an answer of systemd's may be: a wait looks at every daemon ten times a second."""

_SYSTEMCTL_S = 120.0
_STOPPED_S = 60.0
_PACKAGED = re.compile(r"ceph-(osd|mon|mgr|mds)@(.+)\.service")
_CEPHADM = re.compile(r"ceph-([0-9a-f-]{36})@(osd|mon|mgr|mds)\.(.+)\.service")


@dataclass(frozen=True)
class Unit:
    """A unit that runs a daemon. contained: made by cephadm, so that its first process is a container engine's client.

    rival: an active unit of packages for a daemon of the same name, where this unit is not active.
    """

    name: str
    daemon: str
    active: bool
    contained: bool
    rival: str = ""


def parse_units(text: str, fsid: str) -> dict[str, Unit]:
    """Daemon -> unit, from `systemctl list-units --all --output=json` (systemd 246 and later). Others' are left out.

    A unit of packages does not name its cluster. A unit that names this cluster takes precedence.
    """
    packaged: dict[str, Unit] = {}
    contained: dict[str, Unit] = {}
    for entry in json.loads(text or "[]"):
        unit = _unit(str(entry["unit"]), active=entry["active"] in ("active", "activating", "reloading"), fsid=fsid)
        if unit is not None and entry.get("load") != "not-found":
            (contained if unit.contained else packaged)[unit.daemon] = unit
    return {**packaged, **{name: _beside(unit, packaged.get(name)) for name, unit in contained.items()}}


def _beside(unit: Unit, packaged: Unit | None) -> Unit:
    if packaged is None or unit.active or not packaged.active:
        return unit
    return replace(unit, rival=packaged.name)


def _unit(name: str, *, active: bool, fsid: str) -> Unit | None:
    if match := _PACKAGED.fullmatch(name):
        return Unit(name, f"{match[1]}.{match[2]}", active, contained=False)
    if (match := _CEPHADM.fullmatch(name)) and match[1] == fsid:
        return Unit(name, f"{match[2]}.{match[3]}", active, contained=True)
    return None


class Units:
    """The units of one machine, asked for again when the last answer is old."""

    def __init__(self, host: Host, fsid: str, *, sudo: bool = False, now: clock.Clock = clock.SYSTEM) -> None:
        self._host = host
        self._fsid = fsid
        self._sudo = ("sudo", "-n") if sudo else ()
        self._clock = now
        self._lock = threading.Lock()
        self._known: tuple[float, Mapping[str, Unit]] | None = None

    def all(self) -> Mapping[str, Unit]:
        """Daemon -> unit. Unavailable where there is no systemctl to ask, or it is too old to answer in JSON."""
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
                raise  # the machine cannot be asked at all
            raise Unavailable(
                f"systemd of {self._host.name} in the attached cluster does not say which daemons it keeps",
                str(error),
                "daemons are stopped and started where systemd 246 or later keeps them",
            ) from error

    def get(self, daemon: str) -> Unit:
        """A daemon's unit; Unavailable where systemd keeps none of that name."""
        units = self.all()
        if daemon not in units:
            has = ", ".join(sorted(units)) or "none"
            raise Unavailable(
                f"the attached cluster has no unit of systemd on {self._host.name} for {daemon}",
                f"daemons with units: {has}",
            )
        return units[daemon]

    def refuse_rival(self, daemon: str) -> None:
        """SpecError where this cluster's unit is not active and a unit of packages is, which may be a leftover."""
        unit = self.all().get(daemon)
        if unit is not None and unit.rival:
            raise SpecError(
                f"{daemon} has two units on {self._host.name}, and the one that runs may be another cluster's",
                f"{unit.name}: not active; {unit.rival}: active",
                f"start the one, or `systemctl disable --now` the other: only {unit.name} names this cluster",
            )

    def main_pid(self, daemon: str) -> int:
        """The process that is a daemon, as its machine counts; 0 while it does not run."""
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
    """A daemon's process by systemd, to look at only. main_pid: the pid on its machine."""

    daemon: UnitDaemon
    main_pid: int
    pid: int = 0

    @property
    def ref(self) -> dict[str, Any]:
        return {"pid": self.main_pid}

    def alive(self) -> bool:
        return self.daemon.alive()

    def exit_code(self) -> int | None:
        """None: systemd has it."""
        return None

    def signal(self, number: Signals) -> None:
        raise NotPermitted(f"sending {number.name} to {self.daemon.name} past systemd")

    def wait(self, timeout_s: float) -> bool:
        """Whether systemd said that it ended within timeout_s seconds."""
        try:
            clock.wait(self.alive, lambda alive: not alive, what="its end", timeout_s=timeout_s, interval_s=0.2)
        except NotReached:
            return False
        return True


@dataclass
class UnitDaemon(Daemon):
    """A daemon that systemd runs. units: of its machine; None where systemd does not run it."""

    units: Units | None = None
    permitted: Permitted = field(default=lambda _name, _verb: None)

    def start(self) -> None:
        self.permitted(self.name, "start")
        self._units().tell("start", self._units().get(self.name).name)
        self._wait(active=True)
        self.wanted = Wanted.RUNNING

    def stop(self, *, patience: float = 1.0) -> None:
        self.permitted(self.name, "stop")
        paused = self.wanted is Wanted.PAUSED
        if paused:
            self.resume()
        self.wanted = Wanted.STOPPED
        self._units().tell("stop", self._units().get(self.name).name)
        self._wait(active=False, patience=patience)

    def kill(self) -> None:
        """SIGKILL; the unit is stopped at once, or systemd would start the daemon again."""
        unit = self._bare("kill")
        self.wanted = Wanted.STOPPED
        self._units().tell("kill", "--signal=SIGKILL", unit)
        self._units().tell("stop", unit)
        self._wait(active=False)
        self._units().tell("reset-failed", unit)

    def pause(self) -> None:
        unit = self._bare("pause")
        self.wanted = Wanted.PAUSED
        self._units().tell("kill", "--signal=SIGSTOP", unit)

    def resume(self) -> None:
        unit = self._bare("resume")
        self.wanted = Wanted.RUNNING
        self._units().tell("kill", "--signal=SIGCONT", unit)

    def alive(self) -> bool:
        """What systemd says. A daemon that it does not run counts as alive: Ceph's maps show when it is not."""
        if self.units is None:
            return self.wanted is not Wanted.STOPPED
        unit = self.units.all().get(self.name)
        return unit is not None and unit.active

    def accounted(self) -> HostProcess | None:
        """The unit's process; None where systemd does not run the daemon itself."""
        unit = self.units.all().get(self.name) if self.units is not None else None
        if self.units is None or unit is None or unit.contained:
            return None
        pid = self.units.main_pid(self.name)
        return UnitProcess(self, pid) if pid else None

    def log_tail(self, lines: int = 25) -> str:
        return f"look at {self.host.name}: journalctl -u 'ceph*{self.id}*' -n {lines}"

    def crashes(self) -> list[str]:
        """Empty: on a cluster that exists `ceph crash ls` has them."""
        return []

    def _bare(self, verb: str) -> str:
        """Name of the unit whose own process is the daemon."""
        self.permitted(self.name, verb)
        unit = self._units().get(self.name)
        if unit.contained:
            raise Unavailable(
                f"{self.name} runs in a container of cephadm's: the attached cluster cannot {verb} it",
                f"unit {unit.name}; a signal to it would reach the container engine's client",
                "start and stop can be done",
            )
        return unit.name

    def _units(self) -> Units:
        if self.units is None:
            raise Unavailable(
                f"nothing of the attached cluster on {self.host.name} is known to start or stop {self.name}"
            )
        return self.units

    def _wait(self, *, active: bool, patience: float = 1.0) -> None:
        clock.wait(
            self.alive,
            lambda alive: alive is active,
            what=f"{self.name} {'active' if active else 'inactive'} in systemd",
            timeout_s=_STOPPED_S * patience,
            interval_s=0.2,
        )
