"""Measures a profile's own machines under a required load: fio runs on every client machine at once."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Self

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.bmc import named_bmcs
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import Energy, Scope, energy_value, work_per_watt
from cephlab.lab.telemetry.watts import WattMeter, at_the_plug, meter_of
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import PASSES, BlockImage
from cephlab.suites.bias import UNBIASED, Bias, watched
from cephlab.suites.block.scale import scale
from cephlab.suites.block.stand import LEAST_OPERATIONS, client_node, job, run_jobs, total, write_all
from cephlab.tuning.held import PERCENTILE
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import LoadRequirement, Protection, Requirement
from cephlab.tuning.units import Measure

POOL = "wanted"
IMAGE_BYTES = 4 << 30
"""For one load generator, or its share of the disks if that is less: dozens of them far exceed the OSDs' memory."""
SECONDS = {Tier.QUICK: 30.0, Tier.FULL: 120.0}
RAMP_S = 5.0
PGS_PER_OSD = 100
PATTERNS = {
    "read": "read",
    "seq": "read",
    "seqread": "read",
    "write": "write",
    "seqwrite": "write",
    "randread": "randread",
    "randwrite": "randwrite",
}
"""Operation of the model -> fio's pattern. Objects go through a gateway, which fio cannot use."""
MIXES = {frozenset({"randread", "randwrite"}): "randrw", frozenset({"read", "write"}): "rw"}


@dataclass(frozen=True)
class FioLoad:
    """pattern: fio's `rw`; more: its further options."""

    pattern: str
    more: Mapping[str, str]


def load_of(requirement: Requirement) -> FioLoad | str:
    """How fio makes a requirement's load; a sentence on why it cannot."""
    if not isinstance(requirement, LoadRequirement):
        return f"a requirement of kind {requirement.kind} is predicted only"
    if requirement.op in PATTERNS:
        return FioLoad(PATTERNS[requirement.op], {})
    pattern = MIXES.get(frozenset(requirement.mix))
    if pattern is None:
        return f"fio cannot make {requirement.op or ' and '.join(requirement.mix)} on images"
    reads = requirement.mix["read" if "read" in requirement.mix else "randread"]
    return FioLoad(pattern, {"rwmixread": f"{round(reads * 100)}"})


@dataclass(frozen=True)
class Measured:
    """Intervals of the rate in ops/s, the mean latency and the 99th percentile in seconds; None: not reported.

    plug: each machine's energy at its plug, as measured; empty where it was not, and `unplugged` says why. bias: which
    way they may be off.
    """

    rate: Interval
    mean: Interval
    p99: Interval | None
    plug: tuple[Energy, ...] = ()
    unplugged: str = ""
    sentences: tuple[str, ...] = ()
    bias: Bias = UNBIASED

    def biased(self, bias: Bias) -> Self:
        """The same figures, open on the side on which they cannot decide, and why."""
        p99 = bias.latency(self.p99) if self.p99 else None
        rate, mean = bias.rate(self.rate), bias.latency(self.mean)
        return replace(self, rate=rate, mean=mean, p99=p99, sentences=(*self.sentences, *bias.sentences), bias=bias)

    def lack(self, metric: str) -> str:
        """Why there is no figure to compare with a prediction of that metric."""
        return "none was reported" if metric.startswith(PERCENTILE) else self.unplugged

    def of(self, metric: str, kind: Measure, requirement: Requirement) -> Interval | None:
        """The interval to compare with a prediction of that metric, in its unit; None where there is none."""
        if metric.startswith(PERCENTILE):
            return self.p99
        if metric == "mean latency":
            return self.mean
        rate = self.rate
        if kind is Measure.WORK:
            # The watts of a profile are a model: they must not decide about something measured.
            return work_per_watt(rate, self.plug) if self.plug else None
        assert isinstance(requirement, LoadRequirement)
        unit = {Measure.RATE: requirement.bs, Measure.OPS: 1.0}[kind]
        return replace(rate, mean=rate.mean * unit, low=rate.low * unit, high=rate.high * unit)


@dataclass(frozen=True)
class Seen:
    """The one figure of a requirement other than a load, in its unit; None where `why_not` says why there is none.

    sentences: on what the figure rests on.
    """

    interval: Interval | None
    sentences: tuple[str, ...] = ()
    why_not: str = ""

    def lack(self, _metric: str) -> str:
        """Why there is no figure."""
        return self.why_not

    def of(self, _metric: str, _kind: Measure, _requirement: Requirement) -> Interval | None:
        """The interval to compare with the requirement's only prediction."""
        return self.interval


def measure(stage: Stage, requirement: LoadRequirement, load: FioLoad, profile: Profile) -> Measured:
    """Run all load generators at once, each on an image of its own that was written twice."""
    size_bytes = scale(profile).image_bytes(IMAGE_BYTES, requirement.clients)
    with images(stage.cluster, requirement.protection, requirement.clients, size_bytes) as targets:
        jobs = [
            (client_node(stage.cluster, number), _job(stage, target, requirement, load))
            for number, target in enumerate(targets)
        ]
        meter = meter_of(stage.cluster, named_bmcs())
        with meter.looking(), watched(stage, jobs, judged=True) as watch:
            began_s = time.time()
            results = run_jobs(stage.cluster, jobs)
            window = began_s + RAMP_S, time.time()
    errors = sum(side.errors for result in results for side in (result.read, result.write))
    stage.recorder.observe("errors of fio", got=errors, wanted=0)
    fewest = min(result.operations for result in results)
    stage.recorder.witness("operations of the slowest load generator", got=fewest, least=LEAST_OPERATIONS)
    plug, without = at_the_plugs(stage.recorder, meter, window)
    reads = 0 if load.pattern in ("write", "randwrite") else size_bytes * requirement.clients
    bias = watch.bias("load generators", reads, requirement.hit_ratio)
    return replace(summed(results), plug=plug, unplugged=without).biased(bias)


def at_the_plugs(recorder: Recorder, meter: WattMeter, window: tuple[float, float]) -> tuple[tuple[Energy, ...], str]:
    """(each machine's energy at its plug in that time, or none and why)."""
    energies = meter.energies(window)
    recorder.record("watts", energies=[energy_value(energy) for energy in energies], unread=sorted(meter.unread))
    plug = tuple(at_the_plug(energies, sorted(meter.hosts)))
    return plug, "" if plug else unplugged(meter, energies)


def unplugged(meter: WattMeter, energies: Sequence[Energy]) -> str:
    """Why there is no sum of watts at the plug, in words."""
    sound = {energy.node for energy in energies if energy.scope is Scope.MACHINE and energy.measured}
    without = ", ".join(sorted(set(meter.hosts) - sound))
    wrong = [f"{energy.node} by {energy.source}: {line}" for energy in energies for line in energy.trouble]
    reason = f"no source has the watts at the plug of {without}" if without else "no single source has the watts of all"
    return "; ".join([reason, *wrong, *sorted(meter.unread)])


def _job(stage: Stage, target: BlockImage, requirement: LoadRequirement, load: FioLoad) -> FioJob:
    fio_job = job(stage, target, load.pattern, requirement.bs, requirement.depth, **load.more)
    more = {**fio_job.more, "ramp_time": f"{RAMP_S:g}"}
    return replace(fio_job, runtime_s=SECONDS[stage.tier], more=more)


def data_pool(cluster: Cluster, protection: Protection) -> AbstractContextManager[str]:
    """A pool with that protection and as many PGs as the autoscaler aims at; yields the pool's name."""
    size = shards_of(protection)
    pg_num = 1 << max(3, round(math.log2(PGS_PER_OSD * max(1, len(cluster.osd_ids())) / size)))
    kind = PoolKind("data", size, protection.k, protection.m)
    return pools.pool(cluster, f"{POOL}-data" if protection.k else POOL, kind, pg_num=pg_num)


def shards_of(protection: Protection) -> int:
    """OSDs that have a part of each object."""
    return protection.k + protection.m if protection.k else protection.replicas


@contextmanager
def images(
    cluster: Cluster, protection: Protection, count: int, size_bytes: int, *more: str, passes: int = PASSES
) -> Iterator[list[BlockImage]]:
    """Images in a pool with that protection. An erasure code holds only their data: the rest of an image needs copies.

    more: options of `rbd create`; passes: how often they are written.
    """
    with ExitStack() as undo:
        pool = undo.enter_context(data_pool(cluster, protection))
        if protection.k:
            more = (*more, "--data-pool", pool)
            heads = PoolKind("replicated", min(3, shards_of(protection)))
            pool = undo.enter_context(pools.pool(cluster, POOL, heads, pg_num=8))
        targets = [BlockImage(pool, f"image{number}", size_bytes) for number in range(count)]
        write_all(cluster, targets, *more, passes=passes)
        yield targets


def summed(results: Sequence[FioResult]) -> Measured:
    """All load generators together. Their 99th percentile lies between the lowest and the highest of a single one."""
    runs, samples = [], []
    percentiles: list[float] = []
    for result in results:
        sides = [side for side in (result.read, result.write) if side.operations]
        spread = math.sqrt(sum(side.iops_stddev**2 for side in sides))
        runs.append((result.iops, spread, result.latency_mean_s))
        samples += [side.iops_samples for side in sides]
        percentiles += [side.latency_p99_s for side in sides if side.latency_p99_s is not None]
    rate, mean = total(runs, min(samples, default=0))
    p99 = None
    if percentiles:
        middle = sum(percentiles) / len(percentiles)
        p99 = Interval(middle, min(percentiles), max(percentiles), len(percentiles))
    return Measured(rate, mean, p99)
