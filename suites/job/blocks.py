"""The fio and rados bench loads of a job: each combination of its lists, scaled to the cluster."""

from collections.abc import Iterator
from itertools import product

from cephlab.lab.cluster import pools
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.jobs.jobfile import BenchLoad, BlockLoad, Job
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads.radosbench import BenchJob, run_all
from cephlab.suites.block.papers import BENCH_BYTES, FioSetting
from cephlab.suites.block.scale import pg_num, scale_of
from cephlab.suites.block.stand import client_node

LEAST_OBJECTS = 10
MIXED = ("rw", "randrw")


def settings_of(job: Job, load: BlockLoad) -> Iterator[FioSetting]:
    """One setting for each pattern, block size and number of volumes; jobs and depths vary within a setting."""
    for pattern, block_bytes, volumes in product(load.pattern, load.block_bytes, load.volumes):
        count = f"-{volumes}-volumes" if len(load.volumes) > 1 else ""
        yield FioSetting(
            name=f"{load.name}-{pattern}-{size_of(block_bytes)}{count}",
            source=job.source,
            pattern=pattern,
            block_bytes=block_bytes,
            depths=load.depth,
            jobs=load.jobs,
            size_bytes=load.volume_bytes,
            seconds=load.runtime_s,
            volumes=volumes,
            more={"rwmixread": str(load.read_percent)} if pattern in MIXED else {},
            kind=job.kind_of(load.pool),
            pgs=job.pgs_of(load.pool),
        )


def size_of(block_bytes: int) -> str:
    """`4k`, `4096k`; `512b` where it is not a whole number of KiB."""
    return f"{block_bytes}b" if block_bytes % 1024 else f"{block_bytes >> 10}k"


def bench(stage: Stage, load: BenchLoad, job: Job) -> None:
    """Run rados bench with every combination: all processes at once, spread over the client machines."""
    scale, kind = scale_of(stage), job.kind_of(load.pool)
    seconds = int(scale.seconds(load.runtime_s))
    pgs = pg_num(stage, kind, job.pgs_of(load.pool))
    with pools.pool(stage.cluster, "bench", kind, pg_num=pgs) as pool:
        for block_bytes, threads, processes in product(load.block_bytes, load.threads, load.processes):
            count = scale.volumes(processes)
            most_bytes = 0 if scale.at_length else BENCH_BYTES // kind.size // count // len(load.block_bytes)
            part = f"{job.source}; {count} of {processes} processes, {seconds} of {load.runtime_s:g} s"
            why = f"recorded only: it depends on the machines; {part}"
            for mode in load.modes:
                run = f"{size_of(block_bytes)}-{threads}-{processes}"
                jobs = [
                    (
                        client_node(stage.cluster, number),
                        BenchJob(pool, mode, seconds, threads, block_bytes, f"{run}-{number}", most_bytes),
                    )
                    for number in range(count)
                ]
                results = run_all(stage.cluster, jobs)
                what = f"{mode} of {size_of(block_bytes)}, {threads} in flight, {processes} processes"
                operations = sum(result.operations for result in results)
                stage.recorder.witness(f"objects of {what}", got=operations, least=LEAST_OBJECTS)
                rate = sum(result.bytes_per_s for result in results)
                stage.recorder.figure(f"rados bench: {what}", rate, "B/s", Bound(why, basis=Basis.NOTED))
