"""Reads of an unwritten image need no disk, so the lab refuses to measure it."""

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.workloads import image
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.block.stand import ANYWHERE, PG_NUM, client_node

SIZE_BYTES = 32 << 20


def run(stage: Stage) -> None:
    """Try to measure an image that is empty, half written, and fully written."""
    cluster, node = stage.cluster, client_node(stage.cluster)
    with pools.pool(cluster, "unwritten", pg_num=PG_NUM) as pool:
        target = BlockImage(pool, "image", SIZE_BYTES)
        image.create(cluster, node, target)
        stage.recorder.observe("an empty image is refused", got=refused(stage, target), wanted=True)
        half = BlockImage(pool, "image", SIZE_BYTES // 2)
        image.precondition(cluster, node, half, passes=1)
        stage.recorder.observe("a half-written image is refused", got=refused(stage, target), wanted=True)
        image.precondition(cluster, node, target)
        stage.recorder.observe("a fully written image is refused", got=refused(stage, target), wanted=False)


def refused(stage: Stage, target: BlockImage) -> bool:
    try:
        image.require_written(stage.cluster, client_node(stage.cluster), target)
    except SpecError:
        return True
    return False


SCENARIOS = (
    Scenario(
        name="block.unwritten",
        goal="The lab refuses to measure reads of an image that is not fully written.",
        method="Tries an empty image, a half-written one, and a fully written one.",
        run=run,
        topology=ANYWHERE,
    ),
)
