"""Cost of an operation by role, compared with a baseline or earlier runs, and with the least any cluster needs."""

from functools import partial
from typing import Any

from cephlab.lab.archive.costs import earlier_costs
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import record_demand
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.compare import CostChange, compare
from cephlab.lab.telemetry.demand import Demand, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.describe import operation_text, size_text
from cephlab.lab.telemetry.measure import measure
from cephlab.lab.telemetry.meter import require_metered
from cephlab.lab.telemetry.place import client_name, machine
from cephlab.lab.telemetry.plan import Load, Plan
from cephlab.lab.telemetry.statistics import Stop
from cephlab.lab.telemetry.usual import since
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
NOTHING_EARLIER = "no earlier run to compare with, and no baseline: `cephlab measure --save-baseline` stores one"
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
        recorder.figure(what, cost.mean, "B", bound, interval=cost.ends)


def against_baseline(stage: Stage, measurement: Measurement) -> None:
    """Record every cost that can be compared with the baseline, else with earlier runs, or that there are none."""
    before = demandfile.find_baseline(stage.cluster.run.home, measurement.demand)
    if before is None:
        against_earlier(stage, measurement)
        return
    (compared,) = compare([before], [measurement])
    judged = [change for change in compared.changes if change.outcome is not None]
    note_cpu(stage.recorder, measurement, "compared with its baseline" if judged else compared.verdict.reason)
    for change in judged:
        stage.recorder.record("change", **facts(change))


def against_earlier(stage: Stage, measurement: Measurement) -> None:
    """Record every cost that can be compared with earlier runs in the archives of this home."""
    recorder = stage.recorder
    kept = earlier_costs(stage.cluster.run.home.archive, recorder.scenario, measurement, LEAST_OPERATIONS)
    compared = since(kept, measurement)
    if compared is None:
        note_cpu(recorder, measurement, NOTHING_EARLIER)
        return
    words = "; ".join(filter(None, (compared.words, compared.untold if compared.changes else compared.why_none)))
    note_cpu(recorder, measurement, words)
    for change in compared.judged:
        recorder.record("change", **facts(change), hours=compared.hours, earlier=list(compared.runs))


def note_cpu(recorder: Recorder, measurement: Measurement, why: str) -> None:
    """Record the CPU time of the operation in all OSDs. why: what it was compared with."""
    cpu = measurement.demand.cpu_s(Role.PRIMARY) + measurement.demand.cpu_s(Role.REPLICA)
    what = f"CPU of {operation_text(measurement.demand.operation)}"
    recorder.figure(what, cpu, "s", Bound(why, basis=Basis.NOTED))


def facts(change: CostChange) -> dict[str, Any]:
    """What the check reads of a change. A history holds no infinite number."""
    low, high = change.ratio.ends
    return {"what": change.what, "value": change.ratio.value, "low": low, "high": high, "found": change.least}


def scenario(name: str, block_bytes: int, depth: int, tier: Tier) -> Scenario:
    size = size_text(block_bytes)
    return Scenario(
        name=f"block.cost[op={name},size={size.replace(' ', '')}]",
        goal=f"A {name} of {size} costs no more than its baseline or in earlier runs, and moves at least its payload.",
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
