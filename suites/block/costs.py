"""What an operation costs each role: against the stored baseline, and against what no cluster can go below."""

from __future__ import annotations

from functools import partial

from cephlab.lab.history.history import Bound, Recorder
from cephlab.lab.report.series import record_demand
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry import baselines
from cephlab.lab.telemetry.compare import compare
from cephlab.lab.telemetry.demand import Demand, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.describe import operation_text, size_text
from cephlab.lab.telemetry.measure import measure
from cephlab.lab.telemetry.meter import require_metered
from cephlab.lab.telemetry.place import client_name, machine
from cephlab.lab.telemetry.plan import Load, Plan
from cephlab.lab.telemetry.statistics import Stop
from cephlab.suites.block.stand import TOPOLOGY, image_key

MAX_HARNESS_SHARE = 0.05
COPIES = 3
DEPTH = 32
LARGE_DEPTH = 8
NARROW = 0.02
BUDGET_S = {Tier.QUICK: 10.0, Tier.FULL: 40.0}
BASELINE_BUDGET_S = 45.0
"""Where there is something to compare with, more batches: the verdict is by interval."""

BATCH_S = 1.5
LEAST_OPERATIONS = 200


def run(stage: Stage, name: str, block_bytes: int, depth: int) -> None:
    """Measure, then note what can be judged."""
    cluster = stage.cluster
    require_metered(cluster, COPIES)
    known = baselines.folder(cluster.run.home).is_dir()
    plan = Plan(
        Operation(name, block_bytes, depth, replicas=COPIES),
        (client_name(),),
        stop=Stop(NARROW, BASELINE_BUDGET_S if known else BUDGET_S[stage.tier]),
        low=Load(depth // 4) if stage.tier is Tier.FULL else None,
        batch_s=BATCH_S,
        seed=stage.rng.randrange(1 << 31),
    )
    measurement = measure(cluster, plan, image_key=image_key(cluster), say=quiet, conditions=machine())
    record_demand(stage.recorder, measurement)
    stage.recorder.witness(
        "operations measured", got=float(measurement.conditions["operations"]), least=LEAST_OPERATIONS
    )
    share = float(measurement.conditions["harness_share"])
    why = "the harness itself must not distort what it measures"
    stage.recorder.figure("CPU of cephlab beside that of the cluster", share, "", Bound(why, most=MAX_HARNESS_SHARE))
    floors(stage.recorder, measurement.demand)
    against_baseline(stage, measurement)


def quiet(_line: str) -> None:
    """Swallow progress messages."""


def floors(recorder: Recorder, demand: Demand) -> None:
    """The least that an operation moves over the wire and onto disks: its payload."""
    size, copies = demand.operation.block_bytes, demand.operation.replicas
    if "write" in demand.operation.name:
        _floor(recorder, demand, Role.PRIMARY, Resource.WIRE_SENT_BYTES, size * (copies - 1), "a copy to each replica")
        _floor(
            recorder, demand, Role.PRIMARY, Resource.DEVICE_WRITE_BYTES, size, "every byte reaches the primary's disk"
        )
        own = "every byte reaches every replica's disk"
        _floor(recorder, demand, Role.REPLICA, Resource.DEVICE_WRITE_BYTES, size * (copies - 1), own)
    else:
        _floor(recorder, demand, Role.CLIENT, Resource.WIRE_RECEIVED_BYTES, size, "the client gets what it reads")


SLACK = 0.85
"""A batch's ends do not cut all counters at the same operation, and some requests are in flight."""


def _floor(recorder: Recorder, demand: Demand, role: Role, resource: Resource, least: float, why: str) -> None:
    cost = demand.costs[role][resource]
    what = f"{resource} of {role}, per operation of {size_text(demand.operation.block_bytes)}"
    bounds = (cost.low, cost.high)
    recorder.figure(what, cost.mean, "B", Bound(f"{why}: {least:.0f} B", least=least * SLACK), interval=bounds)


def against_baseline(stage: Stage, measurement: Measurement) -> None:
    """Note every cost that can be judged beside the baseline's, or that there is none."""
    before = baselines.find(stage.cluster.run.home, measurement.demand)
    what = f"CPU of {operation_text(measurement.demand.operation)}"
    cpu = measurement.demand.cpu_s(Role.PRIMARY) + measurement.demand.cpu_s(Role.REPLICA)
    if before is None:
        stage.recorder.figure(
            what, cpu, "s", Bound("no baseline is stored: `cephlab measure --save-baseline` stores one")
        )
        return
    (compared,) = compare([before], [measurement])
    judged = [change for change in compared.changes if change.outcome is not None]
    stage.recorder.figure(
        what, cpu, "s", Bound(compared.verdict.reason if not judged else "judged beside its baseline")
    )
    for change in judged:
        ratio = change.ratio
        stage.recorder.record(
            "change", what=change.what, value=ratio.value, low=ratio.low, high=ratio.high, found=change.least
        )


def scenario(name: str, block_bytes: int, depth: int, tier: Tier) -> Scenario:
    size = size_text(block_bytes)
    return Scenario(
        name=f"block.cost[op={name},size={size.replace(' ', '')}]",
        goal=f"A {name} of {size} costs no more than it did, and moves what it must.",
        method=f"fio through librbd at depth {depth} in batches; CPU, disk and wire of each role by operation.",
        run=partial(run, name=name, block_bytes=block_bytes, depth=depth),
        check="regression",
        tier=tier,
        topology=TOPOLOGY,
    )


SCENARIOS = (
    scenario("randwrite", 4096, DEPTH, Tier.QUICK),
    scenario("randread", 4096, DEPTH, Tier.QUICK),
    scenario("write", 4 << 20, LARGE_DEPTH, Tier.FULL),
    scenario("read", 4 << 20, LARGE_DEPTH, Tier.FULL),
)
