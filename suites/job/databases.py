"""The sysbench loads of a job: MariaDB on an RBD image in a guest with a kernel of its own."""

from cephlab.lab.jobs.jobfile import DatabaseLoad
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.block.scale import scale_of
from cephlab.suites.dmcache.oltp import fill, job, measured, steady
from cephlab.suites.dmcache.settings import DATABASE_ROWS, note_rate
from cephlab.suites.dmcache.stand import IMAGE_BYTES, standing

LAB_ROWS = DATABASE_ROWS[-1]


def run(stage: Stage, load: DatabaseLoad) -> None:
    """Make a new database for each number of rows, and load it with each number of threads."""
    scale = scale_of(stage)
    for published in load.rows:
        rows = published if scale.at_length else min(published, LAB_ROWS)
        with standing(stage, image_bytes=2 * IMAGE_BYTES) as stand:
            fill(stand, stage, rows)
            for threads in load.threads:
                stand.warm()
                wanted = job(stand, stage, threads=threads, runtime_s=int(scale.seconds(load.runtime_s)), rows=rows)
                label = f"{rows} rows, {threads} threads"
                note_rate(stage.recorder, label, steady(measured(stand, stage, label, wanted)))
