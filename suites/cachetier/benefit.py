"""fio through librbd on an image, with a tier over its pool and without: throughput and CPU per operation."""

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
"""Fits into the cache. So did the paper's database of less than 1 GB, with hit rates above 90 %."""

BLOCK_BYTES = 4096
DEPTHS = (4, 32)
"""Requests in flight; the paper counts sysbench threads."""

NARROW = 0.10
BUDGET_S = 16.0
BATCH_S = 2.0
LEAST_OPERATIONS = 200
LEAST_HITS = 0.9
"""The paper observed hit rates of more than 90 %."""

UNBUFFERED = replace(LIMITED, options=(*LIMITED.options, ("bluestore_default_buffered_read", "false")))
"""Without buffered reads: OSDs would keep the small data of a lab in memory and not read it from disk again."""

FINDING = "the 2015 paper: a tier that holds the whole database improved throughput up to 116 threads"
OF_THE_PAPER = Bound(FINDING, least=1.0, basis=Basis.SHAPE)


@dataclass(frozen=True)
class MeasuredSide:
    """The measurement of an image with a tier, or of one without. counters: of all tiers during it."""

    loaded: Loaded
    counters: Mapping[str, float]

    @property
    def rates(self) -> list[float]:
        """Operations per second, for each batch."""
        return [batch.operations / batch.seconds for batch in self.loaded.batches]

    @property
    def cpu(self) -> list[float]:
        """CPU seconds per operation in all OSDs and the client, for each batch."""
        return self.loaded.main_costs()


def run(stage: Stage, pattern: str, depth: int) -> None:
    """Measure without a tier, then with a tier that holds all data."""
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
    recorder.witness("hit ratio of the cache", got=hits, least=LEAST_HITS)
    for name, side in (("without a tier", without), ("with the tier", within)):
        recorder.witness(f"operations {name}", got=side.loaded.operations, least=LEAST_OPERATIONS)
        recorder.figure(f"throughput {name}", sum(side.rates) / len(side.rates), "operations/s", NO_LIMIT)
        recorder.figure(f"CPU of an operation {name}", sum(side.cpu) / len(side.cpu), "s", NO_LIMIT)
    shape = Shape(pattern, BLOCK_BYTES, 1, depth, COPIES)
    # The other causes of a changed cost (docs/regression.md) are part of a tier's cost, and are not subtracted.
    for what, change, bound in (
        ("throughput", ratio(without.rates, within.rates), gains.of_tier(stage, shape, hits, OF_THE_PAPER)),
        (
            "CPU of an operation",
            ratio(without.cpu, within.cpu),
            Bound("recorded only: the paper has no figure", basis=Basis.NOTED),
        ),
    ):
        recorder.figure(f"{what} with the tier / without", change.value, "", bound, interval=change.ends)


def measured(stage: Stage, pool: str, pattern: str, depth: int) -> MeasuredSide:
    """Write an image fully twice, through the tier if there is one, and measure it."""
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
        goal="A tier that holds all of the data gives higher throughput than slow disks alone.",
        method=f"Runs fio, {pattern} of 4 KiB at depth {depth} through librbd, without a tier, then with one.",
        run=partial(run, pattern=pattern, depth=depth),
        check="figures",
        tier=Tier.FULL,
        topology=UNBUFFERED,
        expects=EXPECTED,
    )
    for pattern in ("randread", "randwrite")
    for depth in DEPTHS
)
