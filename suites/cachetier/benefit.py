"""fio through librbd on an image, with a tier over its pool and without: throughput and CPU of an operation."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.bench import Bench
from cephlab.lab.telemetry.clients import BlockClients
from cephlab.lab.telemetry.demand import Operation, Role
from cephlab.lab.telemetry.meter import Meter
from cephlab.lab.telemetry.pace import Reference, kept_awake
from cephlab.lab.telemetry.plan import Load, Loaded, Plan
from cephlab.lab.telemetry.regression import ratio
from cephlab.lab.telemetry.statistics import Stop
from cephlab.lab.workloads import image
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites import gains
from cephlab.suites.block.costs import quiet
from cephlab.suites.block.stand import NO_LIMIT
from cephlab.suites.cachetier import tiers
from cephlab.suites.cachetier.flushing import LIMITED
from cephlab.suites.cachetier.stand import EXPECTED, POOL
from cephlab.suites.cachetier.tiers import TierSettings
from cephlab.tuning.workload import Shape

PLAIN = "plain"
COPIES = 2
PG_NUM = 16
IMAGE_BYTES = 64 << 20
"""Fits into the cache, as did the paper's database of less than 1 GB, with hit rates above 90 %."""

BLOCK_BYTES = 4096
DEPTHS = (4, 32)
"""Requests in flight, where the paper counts threads of sysbench."""

NARROW = 0.10
BUDGET_S = 16.0
BATCH_S = 2.0
LEAST_OPERATIONS = 200
LEAST_HITS = 0.9
"""The paper observed hit rates of more than 90 %."""

UNBUFFERED = replace(LIMITED, options=(*LIMITED.options, ("bluestore_default_buffered_read", "false")))
"""Otherwise the OSDs would keep a lab's few data in memory after the first read, and not read from disk again."""

FINDING = "the 2015 paper: the tier improved throughput up to 116 threads, with a database that fits into it"
OF_THE_PAPER = Bound(FINDING, least=1.0, basis=Basis.SHAPE)


@dataclass(frozen=True)
class MeasuredSide:
    """What was measured on an image with a tier, or on one without. counters: of all tiers meanwhile."""

    loaded: Loaded
    counters: Mapping[str, float]

    @property
    def rates(self) -> list[float]:
        """Operations a second, batch by batch."""
        return [batch.operations / batch.seconds for batch in self.loaded.batches]

    @property
    def cpu(self) -> list[float]:
        """CPU seconds of an operation in all OSDs and the client, batch by batch."""
        return self.loaded.main_costs()


def run(stage: Stage, pattern: str, depth: int) -> None:
    """Measure without a tier, then with one that holds everything."""
    cluster, recorder = stage.cluster, stage.recorder
    tiers.lay_out(cluster)
    tiers.make_pool(cluster, PLAIN, tiers.SLOW_ROOT, size=COPIES, pg_num=PG_NUM)
    try:
        pools.wait_clean(cluster)
        without = measured(stage, PLAIN, pattern, depth)
    finally:
        pools.delete(cluster, PLAIN)
    with tiers.tier(cluster, POOL, TierSettings(), size=COPIES, pg_num=PG_NUM) as pair:
        within = measured(stage, pair.base, pattern, depth)
    recorder.record("tier_counters", what=f"{pattern} at depth {depth}", counters=dict(within.counters))
    hits = tiers.hit_share(within.counters)
    recorder.witness("share of operations that hit the cache", got=hits, least=LEAST_HITS)
    for name, side in (("without a tier", without), ("with the tier", within)):
        recorder.witness(f"operations {name}", got=side.loaded.operations, least=LEAST_OPERATIONS)
        recorder.figure(f"throughput {name}", sum(side.rates) / len(side.rates), "operations/s", NO_LIMIT)
        recorder.figure(f"CPU of an operation {name}", sum(side.cpu) / len(side.cpu), "s", NO_LIMIT)
    shape = Shape(pattern, BLOCK_BYTES, 1, depth, COPIES)
    # The other causes of a changed cost (docs/regression.md) belong to a tier, and are not taken out.
    for what, change, bound in (
        ("throughput", ratio(without.rates, within.rates), gains.of_tier(stage, shape, hits, OF_THE_PAPER)),
        (
            "CPU of an operation",
            ratio(without.cpu, within.cpu),
            Bound("the paper has no figure: recorded only", basis=Basis.SHAPE),
        ),
    ):
        recorder.figure(f"{what} with the tier / without", change.value, "", bound, interval=(change.low, change.high))


def measured(stage: Stage, pool: str, pattern: str, depth: int) -> MeasuredSide:
    """Write an image twice over, through the tier if there is one, and measure on it."""
    cluster = stage.cluster
    node = cluster.client.host.name
    target = BlockImage(pool, "image", IMAGE_BYTES)
    image.create(cluster, node, target)
    image.precondition(cluster, node, target)
    plan = Plan(
        Operation(pattern, BLOCK_BYTES, depth, replicas=COPIES),
        (node,),
        stop=Stop(NARROW, BUDGET_S),
        batch_s=BATCH_S,
        seed=stage.rng.randrange(1 << 31),
    )
    with ExitStack() as undo:
        osds = [cluster.daemon(f"osd.{osd}") for osd in cluster.osd_ids()]
        # Any OSD may be the primary of a PG here: all of them together count as one.
        meter = Meter(cluster, {Role.PRIMARY: osds})
        undo.callback(meter.close)
        undo.enter_context(kept_awake())
        reference = undo.enter_context(Reference(SYSTEM))
        bench = Bench(cluster, meter, reference, plan, BlockClients(cluster, plan, (target,)), quiet, SYSTEM)
        idle = bench.idle()
        before = tiers.tier_counters(cluster)
        loaded = bench.load(Load(depth), idle, plan.stop)
        return MeasuredSide(loaded, tiers.since(cluster, before))


SCENARIOS = tuple(
    Scenario(
        name=f"cachetier.benefit[op={pattern},depth={depth}]",
        goal="A tier that holds all of the data makes slow disks faster; its cost in CPU is recorded.",
        method=f"Runs fio, {pattern} of 4 KiB at depth {depth} through librbd, without a tier and with one.",
        run=partial(run, pattern=pattern, depth=depth),
        check="figures",
        tier=Tier.FULL,
        topology=UNBUFFERED,
        expects=EXPECTED,
    )
    for pattern in ("randread", "randwrite")
    for depth in DEPTHS
)
