"""A job's object loads, one after the other through gateways of both architectures, scaled to the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cephlab.lab.base.clock import Deadline
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.jobs.jobfile import Job, ObjectLoad
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads import s3load
from cephlab.lab.workloads.s3_load_program import FILL, RUN
from cephlab.lab.workloads.s3load import S3Load, S3Operation, S3Result
from cephlab.suites.block.scale import Scale, scale_of
from cephlab.suites.object.stand import gateways, loaded, near

HELD_BYTES = 64_000_000
"""Most bytes that a load may keep on a lab, whose disks share one machine."""
LAB_OBJECT_BYTES = 10_000_000
"""Largest object on a lab; all size ranges of a load with larger ones shrink by the same factor."""
LAB_WORKERS, LAB_BUCKETS = 8, 4
LEAST_OPERATIONS = 10
MOST_LONGER = 8.0
"""Largest factor by which a load runs longer than planned, where a busy machine does too few operations."""


@dataclass(frozen=True)
class Scaled:
    """A load as it runs. words: which of its amounts are as published, and which are less."""

    load: S3Load
    rampup_s: float
    pause_s: float
    words: str


def scaled(load: ObjectLoad, scale: Scale, seed: int) -> Scaled:
    """The load at a scale: the published size on the machines of a profile, else a size that a lab can hold."""
    sizes, buckets, objects = load.sizes, load.buckets, load.objects
    largest = max(most for _, most, _ in sizes)
    workers, operations = load.workers, load.operations
    if not scale.at_length:
        factor = min(1.0, LAB_OBJECT_BYTES / max(1, largest))
        sizes = tuple((int(least * factor), int(most * factor), weight) for least, most, weight in sizes)
        weights = sum(weight for _, _, weight in sizes)
        mean = sum((least + most) / 2 * weight for least, most, weight in sizes) / weights
        workers, buckets = min(workers, LAB_WORKERS), min(buckets, LAB_BUCKETS)
        # No two workers put the same object at a time.
        objects = min(objects, max(workers // buckets + 1, int(HELD_BYTES / max(1.0, mean) / buckets)), 2000)
        operations = min(operations, buckets * objects)
    over = {
        kind: s3load.Over(
            shrunk(part.buckets, load.buckets, buckets), shrunk(part.objects, load.objects, objects), part.in_order
        )
        for kind, part in load.over.items()
    }
    rampup_s = scale.seconds(load.rampup_s) if load.rampup_s else 0.0
    runtime_s = scale.seconds(load.runtime_s) if load.runtime_s else 0.0
    s3_load = S3Load(
        mix={str(kind): share for kind, share in load.mix.items()} or {"get": 1.0},
        sizes=sizes,
        bucket=f"{load.name}-",
        buckets=buckets,
        objects=objects,
        workers=workers,
        runtime_s=rampup_s + runtime_s,
        operations=operations,
        seed=seed,
        phases=load.phases,
        over=over,
        unfilled=FILL not in load.phases,
    )
    words = (
        f"{buckets} of {load.buckets} buckets, {objects} of {load.objects} objects, "
        f"{workers} of {load.workers} workers, up to {max(most for _, most, _ in sizes)} of {largest} bytes, "
        f"{runtime_s:g} of {load.runtime_s:g} s"
    )
    return Scaled(s3_load, rampup_s, scale.seconds(load.pause_s) if load.pause_s else 0.0, words)


def shrunk(ranges: Sequence[tuple[int, int, float]], most: int, fewer: int) -> tuple[tuple[int, int, float], ...]:
    """Ranges of 1 to `most` mapped to 1 to `fewer`: separate ranges stay separate where there is room."""
    loads = []
    for first, last, weight in ranges:
        begin = 1 + (first - 1) * fewer // most
        loads.append((begin, max(begin, last * fewer // most), weight))
    return tuple(loads)


def run(stage: Stage, job: Job) -> None:
    """Run every load of the job, in its order."""
    doors = list(gateways(stage.cluster).values())
    for load in job.objects:
        part = scaled(load, scale_of(stage), stage.rng.randrange(1 << 31))
        result = loaded(stage, load.name, near(stage.cluster), doors, part.load)
        again = longer(part, len(counted(result, part.rampup_s)), load.runtime_s)
        if again is not None:
            part, result = again, loaded(stage, load.name, near(stage.cluster), doors, again.load)
        note(stage.recorder, load, result, f"{job.source}; {part.words}", part.rampup_s)
        if part.pause_s:
            Deadline.after(part.pause_s).pause(part.pause_s)


def longer(part: Scaled, count: int, published_s: float) -> Scaled | None:
    """The load again in new buckets, for as long as enough operations take at the pace of a run that did `count`.

    None where there were enough, where the load has a number of operations or no run phase, or ran its full time.
    """
    load = part.load
    if count >= LEAST_OPERATIONS or RUN not in load.phases or load.operations or load.runtime_s >= published_s:
        return None
    runtime_s = min(published_s, load.runtime_s * min(MOST_LONGER, 2 * LEAST_OPERATIONS / max(1, count)))
    more = replace(load, bucket=f"{load.bucket}again-", runtime_s=runtime_s)
    return replace(part, load=more, words=f"{part.words}; again for {runtime_s:g} s, as this machine was busy")


def note(recorder: Recorder, load: ObjectLoad, result: S3Result, why: str, rampup_s: float) -> None:
    """Record the rates of each operation after the ramp, and that there were enough operations."""
    operations = counted(result, rampup_s)
    recorder.witness(f"operations of {load.name} after its ramp", got=len(operations), least=LEAST_OPERATIONS)
    bound = Bound(f"recorded only: it depends on the machines; {why}", basis=Basis.NOTED)
    seconds = max(op.ended_s for op in operations) - min(op.began_s for op in operations) if operations else 1.0
    for kind in sorted({op.kind for op in operations}):
        own = [op for op in operations if op.kind == kind]
        recorder.figure(f"{load.name}: {kind}", len(own) / seconds, "operations/s", bound)
        only = replace(result, operations=tuple(replace(op, phase=RUN) for op in own))
        recorder.figure(f"{load.name}: p90 of {kind}", only.percentile_s(90), "s", bound)
    recorder.figure(f"{load.name}: bytes of bodies", sum(op.bytes for op in operations) / seconds, "B/s", bound)


def counted(result: S3Result, rampup_s: float) -> list[S3Operation]:
    """The operations that figures are made of: the run after its ramp, or the filling of a load that only fills."""
    return settled(result, rampup_s) or result.of(FILL)


def settled(result: S3Result, rampup_s: float) -> list[S3Operation]:
    """The operations of the run that began after its ramp."""
    run_of = result.of(RUN)
    begin_s = min((op.began_s for op in run_of), default=0.0) + rampup_s
    return [op for op in run_of if op.began_s >= begin_s]
