"""One guest that runs on a host: booted, spoken to, and ended as its owner or as a power cut ends it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.ceph import conf
from cephlab.lab.providers.host import Channel, Host, HostProcess
from cephlab.suites.hci.hypervisor import relay
from cephlab.suites.hci.hypervisor.command import Order, disk_id

_RELAY = Path(relay.__file__)
WAITS = "waiting for connection on"
"""What QEMU says once the guest's port can be connected to, before it does anything else."""
_SOCKET_S = 60.0
BOOT_S = 300.0
"""Of an emulated guest beside other work; one alone takes a tenth."""
_END_S = 30.0
_MONITOR_S = 300.0


class GuestGone(LabBroken):
    """The guest has ended, or its agent does not answer."""


@dataclass(frozen=True)
class Requests:
    """What the guest has asked an RBD disk for since it was booted, as QEMU counts it."""

    reads: int
    writes: int
    flushes: int

    @property
    def operations(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    def since(self, before: Requests) -> Requests:
        """What was asked for after `before`."""
        return Requests(self.reads - before.reads, self.writes - before.writes, self.flushes - before.flushes)


@dataclass(frozen=True)
class HostedGuest:
    """A guest whose agent has answered. process: QEMU's, which its cost is accounted to; monitor: to QEMU itself."""

    order: Order
    host: Host
    process: HostProcess
    channel: Channel
    monitor: Channel

    def ask(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
        """One request of its agent; GuestGone where it ends meanwhile, LabBroken where it refuses."""
        return _ask(self.channel, self.host, self.order, operation, timeout_s=timeout_s, **arguments)

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Result:
        """A program in the guest, to its end; CommandFailed with its words where it fails."""
        ended = self.ask("run", argv=list(argv), timeout_s=timeout_s)
        done = Result(tuple(argv), int(ended["code"]), ended["out"].encode(), ended["err"].encode())
        if done.code != 0:
            raise CommandFailed(argv, done.code, done.stdout, done.stderr, self.order.name)
        return done

    def requests(self, number: int = 0) -> Requests:
        """What it has asked one of its RBD disks for."""
        known = self._monitored("query-blockstats")
        for device in known:
            if disk_id(number) in str(device.get("qdev")).split("/"):
                counts = device["stats"]
                return Requests(*(int(counts[f"{name}_operations"]) for name in ("rd", "wr", "flush")))
        raise LabBroken(f"the QEMU of {self.order.name} does not count disk {number}'s requests", str(known))

    def negotiate(self) -> None:
        """Once, before anything is asked of the monitor."""
        self._monitored("qmp_capabilities")

    def _monitored(self, command: str) -> Any:
        line = json.dumps({"execute": command}).encode()
        try:
            answer = json.loads(self.monitor.ask(line, timeout_s=_MONITOR_S))
        except (CommandFailed, CommandTimedOut) as error:
            raise GuestGone(f"the QEMU of {self.order.name} does not answer", f"{error}\n{self.words()}") from error
        if "error" in answer:
            raise LabBroken(f"the QEMU of {self.order.name} refused {command}", str(answer["error"]))
        return answer["return"]

    def words(self) -> str:
        """The end of what QEMU and the guest's console said."""
        return words(self.host, self.order)

    def cut_power(self) -> None:
        """The guest and its QEMU are gone at once, with all that either of them held."""
        self.process.signal(signal.SIGKILL)
        if not self.process.wait(_END_S):
            raise LabBroken(f"the QEMU of {self.order.name} does not die")

    def close(self) -> None:
        """End it as a host does that shuts down: QEMU closes its disks. Nothing happens where it has ended."""
        self.process.signal(signal.SIGTERM)
        if not self.process.wait(_END_S):
            self.cut_power()
        self.channel.close()
        self.monitor.close()


def _ask(channel: Channel, host: Host, order: Order, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
    line = json.dumps({"op": operation, **arguments}).encode()
    try:
        answer = json.loads(channel.ask(line, timeout_s=timeout_s))
    except (CommandFailed, CommandTimedOut) as error:
        raise GuestGone(f"the guest {order.name} does not answer", f"{error}\n{words(host, order)}") from error
    if "error" in answer:
        raise LabBroken(f"{operation} failed in the guest {order.name}", answer["error"])
    return answer["ok"]


def words(host: Host, order: Order) -> str:
    """The end of what a guest's QEMU and its console said."""
    log = order.folder / "log"
    return host.read(log).decode(errors="replace")[-2000:] if host.exists(log) else ""


@contextmanager
def running(host: Host, order: Order, *, patience: float = 1.0) -> Iterator[HostedGuest]:
    """The guest for the length of a block; it ends with the block."""
    host.remove(order.folder)
    _configure(host, order)
    process = host.spawn(order.argv(), log=order.folder / "log", env=order.env())
    guest = None
    try:
        guest = _met(host, order, process, patience)
        yield guest
    finally:
        try:
            if guest is not None:
                guest.close()
        finally:
            process.signal(signal.SIGKILL)


def _configure(host: Host, order: Order) -> None:
    """A ceph.conf for each disk, which names the host's keyring; the relay beside it."""
    known = host.read(conf.conf_path(host)).decode()
    for number, disk in enumerate(order.disks):
        lines = [known, "[client]", *(f"{key} = {value}" for key, value in disk.options.items())]
        host.push(("\n".join(lines) + "\n").encode(), order.conf(number))
    host.push(_RELAY, order.folder / "relay.py")


def _met(host: Host, order: Order, process: HostProcess, patience: float) -> HostedGuest:
    def ready() -> bool:
        if not process.alive():
            raise GuestGone(f"the QEMU of {order.name} ended while it was starting", words(host, order))
        return WAITS in words(host, order)

    what = f"the port of the guest {order.name}"
    clock.wait(ready, bool, what=what, timeout_s=_SOCKET_S * patience, interval_s=0.05, timed_out=_late)
    with ExitStack() as undo:
        channel = undo.enter_context(closing(_channel(host, order, order.socket)))
        _ask(channel, host, order, "hello", timeout_s=BOOT_S * patience)
        # Its monitor is there once it has gone on, which it does when its port has somebody who listens.
        monitor = undo.enter_context(closing(_channel(host, order, order.monitor, "monitor")))
        guest = HostedGuest(order, host, process, channel, monitor)
        guest.negotiate()
        undo.pop_all()
    return guest


def _channel(host: Host, order: Order, socket: PurePosixPath, *more: str) -> Channel:
    return host.channel(["python3", str(order.folder / "relay.py"), str(socket), *more])


def _late(what: str, seconds: float, _last: object) -> LabBroken:
    return LabBroken(f"{what} did not come within {seconds:g} s")
