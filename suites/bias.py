"""Which way measured figures may be off: busy clients hide speed and watts, and memory makes disks look fast."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cephlab.lab.base.numbers import si
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.loadcpu import LoadCpu, LoadMeter
from cephlab.lab.workloads.fio import FioJob
from cephlab.lab.workloads.radosbench import BenchJob
from cephlab.suites.machines import is_client

FULL_CPU = 0.5
"""Share of a CPU, or of a machine's CPUs, from which a client may be the limit: its threads wait for each other."""
MEMORY_BYTES = 4.0 * (1 << 30)
"""osd_memory_target's default, of an OSD that does not report it because it does not tune its caches."""
TARGET = "bluestore-pricache.target_bytes"
"""The counter with the osd_memory_target that an OSD tunes its caches to."""
LEAST_SHARE = 0.01
"""Hits of fewer reads are neglected: they change a figure by less than it varies."""
NOTED = Bound("recorded only: above a half, the clients may be the limit", basis=Basis.NOTED)


@dataclass(frozen=True)
class Bias:
    """busy: why the clients may have been the limit; hits: the share of reads, more than required, that memory may have
    answered; memory: that in words. All are empty or 0 if there is no such doubt.
    """

    busy: str = ""
    hits: float = 0.0
    memory: str = ""

    def rate(self, measured: Interval) -> Interval:
        """A rate whose true value may be higher because of the clients, or lower without hits.

        If hits cost nothing, disks alone serve at least the share of reads that were no hits.
        """
        low = measured.low * (1 - self.hits) if self.hits < 1 else 0.0
        return replace(measured, low=low, high=math.inf if self.busy else measured.high)

    def latency(self, measured: Interval) -> Interval:
        """A latency with as many requests in flight: it grows as the rate shrinks."""
        high = measured.high / (1 - self.hits) if self.hits < 1 else math.inf
        return replace(measured, low=0.0 if self.busy else measured.low, high=high)

    def watts(self, measured: Interval) -> Interval:
        """Watts under a load. They grow with it, so under a full load the true ones may be higher."""
        return replace(measured, high=math.inf) if self.busy else measured

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences: what may be wrong with the figures, and what to do."""
        sentences = self._said_of_busy("the cluster may be faster, so its speed cannot fail it")
        if self.hits:
            sentences.append(
                f"{self.memory}: disks may be slower, and the slow end allows for it. Read more data, or state the "
                "share of reads from memory as `hit_ratio` in a requirement."
            )
        return tuple(sentences)

    @property
    def said_of_watts(self) -> tuple[str, ...]:
        """The same of watts."""
        return tuple(self._said_of_busy("fully loaded machines may take more, so these watts cannot pass them"))

    def _said_of_busy(self, so: str) -> list[str]:
        if not self.busy:
            return []
        return [f"{self.busy[0].upper()}{self.busy[1:]}: {so}. Use more or faster client machines."]

    def told(self, bound: Bound) -> Bound:
        """The same bound with these sentences, if it judges."""
        return _saying(bound, self.sentences)

    def told_of_watts(self, bound: Bound) -> Bound:
        """The same of watts."""
        return _saying(bound, self.said_of_watts)


def _saying(bound: Bound, doubts: Sequence[str]) -> Bound:
    return replace(bound, why=". ".join([bound.why, *doubts])) if bound.judges and doubts else bound


UNBIASED = Bias()


def of_all(biases: Sequence[Bias]) -> Bias:
    """The bias of a figure that rests on several loads: each doubt that there is about any of them, at its largest."""
    most = max(biases, key=lambda bias: bias.hits)
    return Bias(next((bias.busy for bias in biases if bias.busy), ""), most.hits, most.memory)


def at_limit(hosts: Mapping[str, Host], spent: Mapping[str, float], cpus: Mapping[str, float], busy: str) -> str:
    """Why clients may have been the limit, in words; empty if they were not.

    spent: CPUs in use on each host; cpus: how many it has; busy: what is said if single clients were busy.
    """
    emulated = [name for name, host in hosts.items() if host.emulated]
    if emulated:
        return f"the clients on {', '.join(emulated)} are emulated"
    full = [name for name, used in spent.items() if used > FULL_CPU * cpus[name]]
    return f"more than half of the CPU time of {', '.join(full)} was used" if full else busy


def note_cpu(recorder: Recorder, what: str, busiest: float, machine: float) -> None:
    """Record how busy the clients of a load were. busiest: CPUs of one client; machine: share of a machine's CPUs."""
    recorder.figure(f"{what}: busiest client, share of one CPU", busiest, "", NOTED)
    recorder.figure(f"{what}: busiest client machine, share of its CPUs", machine, "", NOTED)


def from_memory(cluster: Cluster, read_bytes: float, allowed: float = 0.0) -> tuple[float, str]:
    """(share of reads beyond the allowed one that the OSDs' memory may answer, that in words).

    read_bytes: what is read, again and again; only the primary's copy, or the data shards, of each byte are read.
    """
    if not read_bytes:
        return 0.0, ""
    dumps = counters.of_osds(cluster)
    memory = sum(dump.get(TARGET) or MEMORY_BYTES for dump in dumps.values())
    share = min(1.0, memory / read_bytes)
    if share < allowed + LEAST_SHARE:
        return 0.0, ""
    words = (
        f"Up to {share:.3g} of the reads may come from the memory of the OSDs (osd_memory_target: "
        f"{si(memory, 'bytes')} in all, for {si(read_bytes, 'bytes')} that are read)"
    )
    return (share - allowed) / (1 - allowed), words


@dataclass(frozen=True)
class Watch:
    """The client machines of one load. meter: None if no figure of it is judged."""

    stage: Stage
    meter: LoadMeter | None = None

    def bias(self, what: str, read_bytes: float = 0.0, allowed: float = 0.0) -> Bias:
        """Record how busy the clients were; which way the figures of the load may be off."""
        if self.meter is None:
            return UNBIASED
        cluster, used = self.stage.cluster, self.meter.used()
        # In a lab, and beside daemons, more than the load keeps the CPUs busy.
        alone = {name for name in used if isinstance(cluster, AttachedCluster) and is_client(cluster, name)}
        spent = {name: cpu.whole if name in alone else cpu.load for name, cpu in used.items()}
        if used:
            share = max(spent[name] / cpu.cpus for name, cpu in used.items())
            note_cpu(self.stage.recorder, what, max(cpu.busiest for cpu in used.values()), share)
        cpus = {name: cpu.cpus for name, cpu in used.items()}
        busy = at_limit(self.meter.hosts, spent, cpus, _busy(used) or _unread(self.meter.unread))
        return Bias(busy, *from_memory(cluster, read_bytes, allowed))


def _busy(used: Mapping[str, LoadCpu]) -> str:
    full = [f"{cpu.thread} on {name}" for name, cpu in used.items() if cpu.busiest > FULL_CPU]
    return f"a thread of the load used more than half a CPU ({', '.join(full)})" if full else ""


def _unread(unread: Mapping[str, str]) -> str:
    reasons = "; ".join(f"{name}: {why}" for name, why in unread.items())
    return f"it is not known how busy the clients were ({reasons})" if unread else ""


@contextmanager
def watched(stage: Stage, jobs: Sequence[tuple[str, FioJob | BenchJob]], *, judged: bool) -> Iterator[Watch]:
    """Look at the client machines of a load while it runs in the block, if its figures are judged."""
    if not judged:
        yield Watch(stage)
        return
    ramps = [float(job.more.get("ramp_time", 0)) for _, job in jobs if isinstance(job, FioJob)]
    meter = LoadMeter({node: stage.cluster.hosts[node] for node, _ in jobs}, max(ramps, default=0.0))
    with meter.looking():
        yield Watch(stage, meter)
