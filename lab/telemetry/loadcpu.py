"""Reads how many CPUs the programs of a load use on their machines while they run, by thread.

fio's own `usr_cpu` and `sys_cpu` are of the thread that submits (getrusage(2), RUSAGE_THREAD). They leave out the
threads of librbd and of the messenger, which do most of the work.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from cephlab.lab.base.errors import LabError
from cephlab.lab.base.workers import repeated
from cephlab.lab.providers.host import Host
from cephlab.lab.telemetry import accounting
from cephlab.lab.telemetry.accountants import Teller
from cephlab.lab.telemetry.accounting import HERE

PROGRAMS = ("fio", "rados")
EVERY_S = 1.0


@dataclass(frozen=True)
class Look:
    """at_s: by the host's own clock; threads: CPU seconds of each thread so far; busy_s: of everything there; cpus: how
    many the host has.
    """

    at_s: float
    threads: Mapping[str, float]
    busy_s: float
    cpus: int


@dataclass(frozen=True)
class LoadCpu:
    """CPUs in use on one machine. busiest: by the load's busiest thread, whose name is `thread`; load: by all of its
    threads; whole: by everything; cpus: how many the machine has.
    """

    thread: str
    busiest: float
    load: float
    whole: float
    cpus: int


def used_in(looks: Sequence[Look], ramp_s: float) -> LoadCpu | None:
    """What a load used after the first ramp_s seconds of each of its threads; None if no thread was seen twice then.

    Threads that lived for less than half as long as others are left out: they began or ended the load.
    """
    began: dict[str, float] = {}
    for look in looks:
        for thread in look.threads:
            began.setdefault(thread, look.at_s)
    spans = {}
    for thread, began_s in began.items():
        later = [look for look in looks if thread in look.threads and look.at_s >= began_s + ramp_s]
        if len(later) > 1:
            spans[thread] = later[0], later[-1]
    if not spans:
        return None
    longest_s = max(last.at_s - first.at_s for first, last in spans.values())
    used = {
        thread: (last.threads[thread] - first.threads[thread]) / (last.at_s - first.at_s)
        for thread, (first, last) in spans.items()
        if last.at_s - first.at_s >= longest_s / 2
    }
    busiest = max(used, key=lambda thread: used[thread])
    first, last = spans[busiest]
    whole = (last.busy_s - first.busy_s) / (last.at_s - first.at_s)
    return LoadCpu(busiest.partition(" ")[2], used[busiest], sum(used.values()), whole, last.cpus)


@dataclass
class LoadMeter:
    """Looks at the programs of a load on their hosts. unread: host -> why its counters could not be read."""

    hosts: Mapping[str, Host]
    ramp_s: float = 0.0
    unread: dict[str, str] = field(default_factory=dict)
    looks: dict[str, list[Look]] = field(default_factory=dict)

    @contextmanager
    def looking(self, every_s: float = EVERY_S) -> Iterator[None]:
        """Look regularly while the block runs."""
        tellers = {name: Teller(host) for name, host in self.hosts.items()}
        try:
            self._look(tellers)
            with repeated(partial(self._look, tellers), every_s):
                yield
        finally:
            for teller in tellers.values():
                teller.close()

    def _look(self, tellers: Mapping[str, Teller]) -> None:
        """Look at all hosts but those that could not be read."""
        for name, teller in tellers.items():
            if name in self.unread:
                continue
            try:
                answer = teller.ask("threads", programs=PROGRAMS)
            except LabError as error:
                self.unread[name] = f"{error.what}: {error.detail}"
                continue
            busy_s = accounting.busy_of(answer["busy"], replace(HERE, tick_s=1 / answer["ticks_s"]))
            look = Look(answer["at_s"], answer["threads"], busy_s, answer["cpus"])
            self.looks.setdefault(name, []).append(look)

    def used(self) -> dict[str, LoadCpu]:
        """What the load used on each host. Hosts on which it was not seen are in `unread` then."""
        by_host = {}
        for name in self.hosts:
            used = used_in(self.looks.get(name, ()), self.ramp_s)
            if used:
                by_host[name] = used
            else:
                self.unread.setdefault(name, "the load was not seen there")
        return by_host
