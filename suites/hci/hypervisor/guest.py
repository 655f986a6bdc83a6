"""One guest on a host: boots it, sends it requests, and ends it by a shutdown or a power cut."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.ceph import conf
from cephlab.lab.providers.host import Channel, Host, HostProcess
from cephlab.lab.telemetry.accountants import Teller
from cephlab.suites.hci.hypervisor import relay
from cephlab.suites.hci.hypervisor.command import GuestOrder, disk_id

_RELAY = Path(relay.__file__)
WAITS = "waiting for connection on"
"""QEMU logs this when the guest's port accepts connections, and starts the guest only after one is made."""
_SOCKET_S = 60.0
BOOT_S = 300.0
"""For an emulated guest on a busy machine; on an idle one it takes a tenth of this."""
_END_S = 30.0
_MONITOR_S = 300.0


class GuestGone(LabBroken):
    """The guest has ended, or its agent does not answer."""


@dataclass(frozen=True)
class Requests:
    """A guest's requests to an RBD disk since it was booted, as QEMU counts them."""

    reads: int
    writes: int
    flushes: int

    @property
    def operations(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    def since(self, before: Requests) -> Requests:
        """Requests after `before`."""
        return Requests(self.reads - before.reads, self.writes - before.writes, self.flushes - before.flushes)


@dataclass(frozen=True)
class HostedGuest:
    """A guest whose agent has answered. process: of QEMU; channel: to the agent; monitor: to QEMU.

    teller: reads the CPU time of QEMU on a host with a kernel of its own.
    """

    order: GuestOrder
    host: Host
    process: HostProcess
    channel: Channel
    monitor: Channel
    teller: Teller

    def ask(self, operation: str, *, timeout_s: float, **arguments: Any) -> Any:
        """Send the agent a request. GuestGone if the guest ends meanwhile, LabBroken if the agent refuses."""
        return _ask(self.channel, self.host, self.order, {"op": operation, **arguments}, timeout_s)["ok"]

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Result:
        """Run a program in the guest to its end. CommandFailed with its output if it fails."""
        ended = self.ask("run", argv=list(argv), timeout_s=timeout_s)
        result = Result(tuple(argv), int(ended["code"]), ended["out"].encode(), ended["err"].encode())
        if result.code != 0:
            raise CommandFailed(argv, result.code, result.stdout, result.stderr, self.order.name)
        return result

    def requests(self, number: int = 0) -> Requests:
        """Requests to one of its RBD disks so far."""
        devices = _ask(self.monitor, self.host, self.order, {"execute": "query-blockstats"}, _MONITOR_S)["return"]
        for device in devices:
            if disk_id(number) in str(device.get("qdev")).split("/"):
                counts = device["stats"]
                return Requests(*(int(counts[f"{name}_operations"]) for name in ("rd", "wr", "flush")))
        raise LabBroken(f"the QEMU of {self.order.name} does not count disk {number}'s requests", str(devices))

    def cut_power(self) -> None:
        """Kill QEMU at once: everything that it or the guest held in memory is gone."""
        self.process.signal(signal.SIGKILL)
        if not self.process.wait(_END_S):
            raise LabBroken(f"the QEMU of {self.order.name} did not end after SIGKILL")

    def close(self) -> None:
        """End QEMU if it runs, as a host shutdown would: QEMU closes its disks."""
        with closing(self.channel), closing(self.monitor), closing(self.teller):
            self.process.signal(signal.SIGTERM)
            if not self.process.wait(_END_S):
                self.cut_power()


def _ask(channel: Channel, host: Host, order: GuestOrder, request: Mapping[str, Any], timeout_s: float) -> Any:
    """Send one request to the guest's agent (`op`) or to its QEMU (`execute`), and return the answer."""
    whom, command = ("agent", request["op"]) if "op" in request else ("QEMU", request["execute"])
    try:
        answer = json.loads(channel.ask(json.dumps(request).encode(), timeout_s=timeout_s))
    except (CommandFailed, CommandTimedOut) as error:
        raise GuestGone(f"the {whom} of {order.name} does not answer", f"{error}\n{words(host, order)}") from error
    if "error" in answer:
        raise LabBroken(f"the {whom} of {order.name} refused {command}", str(answer["error"]))
    return answer


def words(host: Host, order: GuestOrder) -> str:
    """The last output of a guest's QEMU and its console."""
    log = order.folder / "log"
    return host.read(log).decode(errors="replace")[-2000:] if host.exists(log) else ""


@contextmanager
def running(host: Host, order: GuestOrder, *, patience: float = 1.0) -> Iterator[HostedGuest]:
    """Run a guest during the block."""
    host.remove(order.folder)
    _configure(host, order)
    process = host.spawn(order.argv(), log=order.folder / "log", env=order.env())
    guest = None
    try:
        guest = _connect(host, order, process, patience)
        yield guest
    finally:
        try:
            if guest is not None:
                guest.close()
        finally:
            process.signal(signal.SIGKILL)


def _configure(host: Host, order: GuestOrder) -> None:
    """Write a ceph.conf for each disk, which names the host's keyring, and the relay program."""
    hosts_own = host.read(conf.conf_path(host)).decode()
    for number, disk in enumerate(order.disks):
        lines = [hosts_own, "[client]", *(f"{key} = {value}" for key, value in disk.options.items())]
        host.push(("\n".join(lines) + "\n").encode(), order.conf(number))
    host.push(_RELAY, order.folder / "relay.py")


def _connect(host: Host, order: GuestOrder, process: HostProcess, patience: float) -> HostedGuest:
    """Wait until a guest has booted, with a channel to its agent and one to its QEMU."""

    def ready() -> bool:
        if not process.alive():
            raise GuestGone(f"the QEMU of {order.name} ended while it was starting", words(host, order))
        return WAITS in words(host, order)

    what = f"the port of the guest {order.name}"
    clock.wait(ready, bool, what=what, timeout_s=_SOCKET_S * patience, interval_s=0.05, timed_out=not_in_time)
    with ExitStack() as undo:
        channel = undo.enter_context(closing(_channel(host, order, order.socket)))
        _ask(channel, host, order, {"op": "hello"}, BOOT_S * patience)
        # QEMU opens its monitor only after the guest's port is connected.
        monitor = undo.enter_context(closing(_channel(host, order, order.monitor, "monitor")))
        _ask(monitor, host, order, {"execute": "qmp_capabilities"}, _MONITOR_S)
        undo.pop_all()
    return HostedGuest(order, host, process, channel, monitor, Teller(host))


def _channel(host: Host, order: GuestOrder, socket: PurePosixPath, *more: str) -> Channel:
    return host.channel(["python3", str(order.folder / "relay.py"), str(socket), *more])


def not_in_time(what: str, seconds: float, _last: object) -> LabBroken:
    """The error when something does not come in time, which says nothing about Ceph."""
    return LabBroken(f"{what} was not reached within {seconds:g} s")
