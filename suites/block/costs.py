"""Cost of an operation by role, compared with a stored baseline and with the least that any cluster needs."""

from functools import partial

from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import record_demand
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry import demandfile
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
"""With a baseline, more batches are needed, because the verdict compares intervals."""

BATCH_S = 1.5
LEAST_OPERATIONS = 200
SLACK = 0.85
"""Allowance: the counters at the end of a batch are not read at the same operation, and some requests are in flight."""


def run(stage: Stage, name: str, block_bytes: int, depth: int) -> None:
    """Measure an operation, and record its figures with their bounds."""
    cluster = stage.cluster
    require_metered(cluster, COPIES)
    known = demandfile.baseline_folder(cluster.run.home).is_dir()
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
    why = "the harness must not distort the measurement"
    stage.recorder.figure(
        "CPU of cephlab beside that of the cluster", share, "", Bound(why, most=MAX_HARNESS_SHARE, basis=Basis.SHAPE)
    )
    floors(stage.recorder, measurement.demand)
    against_baseline(stage, measurement)


def quiet(_line: str) -> None:
    """Drop progress messages."""


def floors(recorder: Recorder, demand: Demand) -> None:
    """Compare the bytes that an operation moves over the wire and to disks with the least possible: its payload."""
    size, copied = demand.operation.block_bytes, demand.operation.block_bytes * (demand.operation.replicas - 1)
    if "write" in demand.operation.name:
        least = [
            (Role.PRIMARY, Resource.WIRE_SENT_BYTES, copied, "the primary sends a copy to each replica"),
            (Role.PRIMARY, Resource.DEVICE_WRITE_BYTES, size, "every byte reaches the primary's disk"),
            (Role.REPLICA, Resource.DEVICE_WRITE_BYTES, copied, "every byte reaches every replica's disk"),
        ]
    else:
        least = [(Role.CLIENT, Resource.WIRE_RECEIVED_BYTES, size, "the client receives the data that it reads")]
    for role, resource, floor, why in least:
        cost = demand.costs[role][resource]
        what = f"{resource} of {role}, per operation of {size_text(size)}"
        bound = Bound(f"{why}: {floor} B", least=floor * SLACK, basis=Basis.CORRECTNESS)
        recorder.figure(what, cost.mean, "B", bound, interval=(cost.low, cost.high))


def against_baseline(stage: Stage, measurement: Measurement) -> None:
    """Record every cost that can be compared with the baseline, or that there is no baseline."""
    before = demandfile.find_baseline(stage.cluster.run.home, measurement.demand)
    what = f"CPU of {operation_text(measurement.demand.operation)}"
    cpu = measurement.demand.cpu_s(Role.PRIMARY) + measurement.demand.cpu_s(Role.REPLICA)
    if before is None:
        why = "no baseline is stored: `cephlab measure --save-baseline` stores one"
        stage.recorder.figure(what, cpu, "s", Bound(why, basis=Basis.NOTED))
        return
    (compared,) = compare([before], [measurement])
    judged = [change for change in compared.changes if change.outcome is not None]
    why = "compared with its baseline" if judged else compared.verdict.reason
    stage.recorder.figure(what, cpu, "s", Bound(why, basis=Basis.NOTED))
    for change in judged:
        ratio = change.ratio
        stage.recorder.record(
            "change", what=change.what, value=ratio.value, low=ratio.low, high=ratio.high, found=change.least
        )


def scenario(name: str, block_bytes: int, depth: int, tier: Tier) -> Scenario:
    size = size_text(block_bytes)
    return Scenario(
        name=f"block.cost[op={name},size={size.replace(' ', '')}]",
        goal=f"A {name} of {size} costs no more than its baseline, and moves at least its payload.",
        method=f"Runs fio through librbd at depth {depth} in batches; counts CPU, disk and wire per operation by role.",
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
