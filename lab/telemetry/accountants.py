"""Kernels that account for processes: that of this machine, or that of a host, read by a program on that host."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.providers.host import Channel, Host, HostProcess
from cephlab.lab.providers.marks import TOKEN_VARIABLE
from cephlab.lab.telemetry import accounting, counters
from cephlab.lab.telemetry.account_program import clock_s, namespace_of, networks_of
from cephlab.lab.telemetry.accounting import KernelUnits, Usage
from cephlab.lab.telemetry.demand import Role

PROGRAM = Path(__file__).with_name("account_program.py")
_ANSWER_S = 60.0

Trees = Mapping[Role, Sequence[int]]
"""Role -> pids, as numbered by the kernel that runs them."""

Packets = Mapping[str, int]


@dataclass(frozen=True)
class Account:
    """What a kernel accounted to roles up to one moment. at_s: that moment, by this machine's clock.

    busy_s: CPU seconds of everything the kernel runs; boot: its boot ID; ahead_s: how far the clock of the host is
    ahead of this machine's clock; clock_s: CPU seconds of the roles by the clocks of that kernel; machine_s: CPU
    seconds of the virtual machine that the kernel runs in, if that is a process here: `usage` then holds shares of it.
    """

    at_s: float
    usage: Mapping[Role, Usage]
    interfaces: Mapping[Role, Packets]
    busy_s: float
    boot: str
    ahead_s: float = 0.0
    clock_s: float = 0.0
    machine_s: float = 0.0


class Accountant(Protocol):
    """A kernel that accounts for processes."""

    def pids(self, process: HostProcess) -> tuple[int, ...]:
        """A process and all its descendants, now."""
        ...

    def read(self, trees: Trees) -> Account: ...


class Here:
    """This machine's kernel."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def pids(self, process: HostProcess) -> tuple[int, ...]:
        return accounting.tree(process.pid)

    def read(self, trees: Trees) -> Account:
        usage = accounting.usage_of_trees(trees)
        interfaces = {role: packets for role, pids in trees.items() if (packets := _packets_here(pids))}
        return Account(self._now(), usage, interfaces, busy_cpu_s(), "here")


def busy_cpu_s() -> float:
    """CPU seconds for which the CPUs of this machine were busy since it booted."""
    return accounting.busy_of((accounting.PROC / "stat").read_text().partition("\n")[0])


def _packets_here(pids: Sequence[int]) -> dict[str, int]:
    """Packets of processes that have their own network namespace; hosts on loopback have none."""
    with suppress(OSError):
        own = namespace_of("self")
        return _summed([text for space, text in networks_of(list(pids)).items() if space != own], "")
    return {}


def _summed(texts: Sequence[str], interface: str) -> dict[str, int]:
    return counters.total(accounting.interface_counters(text, interface) for text in texts)


class Teller:
    """A program on a host that reads counters. It keeps running, since a new interpreter per reading would cost CPU."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._channel: Channel | None = None
        self._ended_s = 0.0
        self._told_s = 0.0
        self._adopted: list[str] = []

    def ask(self, what: str, **more: Any) -> Any:
        """Ask the program; LabBroken if the host cannot answer."""
        if self._channel is None or not self._channel.alive():
            self._ended_s += self._told_s
            self._told_s = 0.0
            self._channel = self.host.channel(["python3", "-c", PROGRAM.read_text()])
            for script in self._adopted:
                self.ask("adopt", script=script)
        line = json.dumps({"do": what, **more}).encode()
        answer = json.loads(self._channel.ask(line, timeout_s=_ANSWER_S))
        self._told_s = float(answer["own_s"])
        if str(answer.get("error", "")).startswith("PermissionError"):
            what = f"this user may not read the resource usage of processes on {self.host.name}"
            raise Unavailable(what, answer["error"], "log in as root, or as the user that the daemons run as")
        if "error" in answer:
            what = f"the resource usage of a process on {self.host.name} cannot be read"
            raise LabBroken(what, answer["error"], "check whether the process has ended")
        return answer["ok"]

    def adopt(self, script: str) -> None:
        """Count processes that run this script on the host as the lab's own from now on."""
        if script not in self._adopted:
            self._adopted.append(script)
            self.ask("adopt", script=script)

    def spent_s(self) -> float:
        """CPU seconds of the program, of what relays its lines on the host, and of the programs it adopted."""
        here = pid_here(self._channel)
        return self._ended_s + (clock_s(here) if here else self._told_s)

    def close(self) -> None:
        if self._channel is not None:
            self._ended_s, self._told_s = self.spent_s(), 0.0
            self._channel.close()
            self._channel = None


def pid_here(channel: Channel | None) -> int:
    """Pid of the program of a channel if it is a running process of this machine, else 0."""
    pid = int(getattr(channel, "pid", 0))
    return pid if pid and channel is not None and channel.alive() else 0


@dataclass
class There:
    """The kernel of a host. machine_s: CPU seconds of its virtual machine so far, if that is a process here.

    networked: whether the interfaces of the host serve only its roles. The CPU clocks of a guest keep running while its
    virtual machine waits for a CPU here, so on a busy machine they show too much: four times too much in guests that
    had ten times as much work as CPUs. The CPU time that this machine accounts to the virtual machine is right, and it
    includes the guest kernel. It is divided among the roles and the lab's own programs in proportion to their clocks.
    """

    teller: Teller
    machine_s: Callable[[], float] | None = None
    networked: bool = False
    now: Callable[[], float] = time.time
    _before: Mapping[Role, Usage] = field(default_factory=dict)
    harness_s: float = 0.0
    _machine_before_s: float = 0.0
    _lab_before_s: float = 0.0
    _shares: dict[Role, Usage] = field(default_factory=dict)

    def pids(self, process: HostProcess) -> tuple[int, ...]:
        pids = self.teller.ask("find", **known_by(process))
        if not pids:
            name = self.teller.host.name
            raise LabBroken(f"a process was not found on {name}, so it cannot be accounted for", f"{process.ref}")
        return tuple(pids)

    def read(self, trees: Trees) -> Account:
        machine_s = self.machine_s() if self.machine_s else 0.0
        pids = sorted({pid for of_role in trees.values() for pid in of_role})
        address = self.teller.host.address if self.networked else ""
        asked_s = self.now()
        answer = self.teller.ask("read", pids=pids, address=address)
        # Assume equal delay in both directions, as NTP does.
        at_s = asked_s + max(0.0, self.now() - asked_s - answer["took_s"]) / 2
        units = KernelUnits(1 / answer["ticks_s"], answer["page_bytes"])
        usage = {role: _usage(answer, role_pids, units) for role, role_pids in trees.items()}
        account = Account(
            at_s=at_s,
            usage=usage,
            interfaces=_interfaces(answer, trees),
            busy_s=accounting.busy_of(answer["busy"], units),
            boot=answer["boot"],
            ahead_s=answer["at_s"] - at_s,
            clock_s=sum(spent.cpu_s for spent in usage.values()),
        )
        if self.machine_s is None:
            return account
        shares = self._share(usage, machine_s)
        return replace(account, at_s=asked_s, usage=shares, machine_s=machine_s)

    def _share(self, usage: Mapping[Role, Usage], machine_s: float) -> dict[Role, Usage]:
        """The usage of each role, with its share of the CPU time of the machine since the last reading."""
        spent_s = machine_s - self._machine_before_s
        rose = {role: now.since(self._before[role]) for role, now in usage.items() if role in self._before}
        lab_s = self.teller.spent_s() - self._lab_before_s
        whole_s = lab_s + sum(usage.cpu_s for usage in rose.values())
        if rose:
            self.harness_s += spent_s * (lab_s / whole_s if whole_s > 0 else 0.0)
        shares = {}
        for role, now in usage.items():
            before = self._shares.get(role, Usage())
            part = rose.get(role)
            if part is None:
                shares[role] = replace(now, cpu_s=before.cpu_s, user_s=before.user_s, system_s=before.system_s)
                continue
            own_s = spent_s * (part.cpu_s / whole_s if whole_s > 0 else 1 / len(rose))
            shares[role] = _added(before, now, part, own_s)
        self._before, self._machine_before_s, self._lab_before_s = usage, machine_s, self.teller.spent_s()
        self._shares = {**self._shares, **shares}
        return shares


def _added(before: Usage, now: Usage, part: Usage, own_s: float) -> Usage:
    """`now`, but with the CPU time of `before` plus `own_s`, split in the same ratio as `part`."""
    user = part.user_s / part.cpu_s if part.cpu_s > 0 else 1.0
    ticks_s = sum(part.threads.values())
    scale = own_s / ticks_s if ticks_s > 0 else 0.0
    return replace(
        now,
        cpu_s=before.cpu_s + own_s,
        user_s=before.user_s + own_s * user,
        system_s=before.system_s + own_s * (1 - user),
        threads={name: before.threads.get(name, 0.0) + spent * scale for name, spent in part.threads.items()},
    )


def _usage(answer: Mapping[str, Any], pids: Sequence[int], units: KernelUnits) -> Usage:
    return accounting.together(
        accounting.of_texts(answer["texts"][str(pid)], answer["clocks"][str(pid)], units) for pid in pids
    )


def _interfaces(answer: Mapping[str, Any], trees: Trees) -> dict[Role, Packets]:
    if not answer["interface"]:
        return {}
    packets: dict[Role, Packets] = {}
    for role, pids in trees.items():
        texts = [text for text, inside in answer["networks"].values() if set(inside) & set(pids)]
        if texts:
            packets[role] = _summed(texts, answer["interface"])
    return packets


def known_by(process: HostProcess) -> dict[str, Any]:
    """How to find a process of another machine on its host (see `HostProcess.ref`)."""
    ref = process.ref
    if ref.get("pid"):
        return {"pid": int(ref["pid"])}
    if ref.get("token"):
        return {"mark": f"{TOKEN_VARIABLE}={ref['token']}"}
    raise LabBroken("a process cannot be accounted for: it has no pid and no mark on its host", f"{dict(ref)}")
