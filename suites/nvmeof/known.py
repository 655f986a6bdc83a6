"""Two issues that a paper on gateways reported, tested without a gateway: in librbd and in fio's rbd engine.

The first is axboe/fio issue 1778: fio with many jobs of its rbd engine never ends. The second is spdk/spdk issue 3547:
the rate falls with the number of images. There the cause was a ring of SPDK, which is not used here; only librbd is.
"""

from functools import partial

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob
from cephlab.suites.block.stand import (
    UNCACHED,
    MeasuredTopology,
    client_node,
    job,
    run_jobs,
    scenario_of_load,
    written,
)

ONE_CLIENT = MeasuredTopology(anywhere=True)
JOBS = (16, 48)
RUN_S, STUCK_S = 5.0, 120.0
"""Duration of the load, and how long to wait for fio after it, both before patience. It normally ends in seconds."""
IMAGES, ROUNDS = 8, 3
IMAGE_BYTES = 8 * MIB
LEAST_RATIO = 0.5
BLOCK_BYTES = 4096


def many_jobs(stage: Stage, jobs: int) -> None:
    """Random reads by many jobs of one fio, each with a Ceph client of its own; all jobs must end."""
    cluster, recorder = stage.cluster, stage.recorder
    with written(stage, size_bytes=IMAGE_BYTES) as [image]:
        wanted = FioJob(
            name=f"jobs{jobs}",
            pool=image.pool,
            target=image.name,
            pattern="randread",
            block_bytes=BLOCK_BYTES,
            depth=1,
            size_bytes=IMAGE_BYTES,
            runtime_s=RUN_S,
            jobs=jobs,
            options=UNCACHED,
            client=cluster.client_name,
            more={"thread": "1", "norandommap": "1"},
        )
        running = fio.start(cluster.hosts[client_node(cluster)], wanted)
        try:
            ended = running.process.wait((RUN_S + STUCK_S) * cluster.patience)
            what = f"fio with {jobs} jobs of its rbd engine ended (if not: axboe/fio issue 1778)"
            recorder.observe(what, got=ended, wanted=True)
            if ended:
                read = running.finish().read
                recorder.observe("errors of its jobs", got=read.errors, wanted=0, of=read.operations)
                recorder.witness("reads of all jobs", got=read.operations, least=jobs)
        finally:
            running.kill()


def many_images(stage: Stage) -> None:
    """The same number of reads in flight on one image and on several, alternately."""
    rates: dict[int, list[float]] = {1: [], IMAGES: []}
    with written(stage, IMAGES, IMAGE_BYTES) as images:
        node = client_node(stage.cluster)
        for _ in range(ROUNDS):
            for count, measured in rates.items():
                depth = IMAGES // count
                jobs = [(node, job(stage, image, "randread", BLOCK_BYTES, depth)) for image in images[:count]]
                results = run_jobs(stage.cluster, jobs)
                measured.append(sum(result.iops for result in results))
                least = min(result.operations for result in results)
                stage.recorder.witness(f"reads of the slowest of {count} images", got=least, least=IMAGES)
    ratio = ratio_of_means(rates[IMAGES], rates[1])
    why = "the same number of reads in flight; a lower rate means spdk/spdk issue 3547 or a librbd cost per image"
    bound = Bound(why, least=LEAST_RATIO, basis=Basis.SHAPE)
    stage.recorder.figure(f"rate of {IMAGES} images over that of one", ratio.mean, "", bound, interval=ratio.ends)


SCENARIOS = (
    *(
        Scenario(
            name=f"nvmeof.fio-jobs[jobs={jobs}]",
            goal="fio with many jobs of its rbd engine ends.",
            method=f"Reads an image with {jobs} jobs of one fio, each a Ceph client, and waits for fio to end.",
            run=partial(many_jobs, jobs=jobs),
            check="witnessed",
            tier=Tier.FULL,
            topology=ONE_CLIENT,
            sees=("errors of its jobs", "reads of all jobs"),
        )
        for jobs in JOBS
    ),
    scenario_of_load(
        name="nvmeof.many-images",
        goal="The read rate does not fall when the same number of reads in flight is spread over more images.",
        method=f"Alternates {IMAGES} reads in flight on one image and one on each of {IMAGES} images, through librbd.",
        run=many_images,
        tier=Tier.FULL,
        topology=ONE_CLIENT,
    ),
)
