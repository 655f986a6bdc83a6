"""A scale model of a declared cluster: its load runs on machines that are held to the same small share of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import psutil

from cephlab.fixtures.expectation import demands_for, speed_here
from cephlab.lab.base.births import boot_id
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.numbers import percent
from cephlab.lab.base.probe import MIPS_PER_POINT, cpu_rating, require_seven_zip
from cephlab.lab.base.runs import write_json
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import PASSES, BlockImage
from cephlab.suites.block.stand import LEAST_OPERATIONS, client_node, job, run_jobs
from cephlab.suites.profile.measured import FioLoad, images, load_of, summed
from cephlab.suites.scale.machines import (
    CLIENTS,
    NEEDS,
    HeldNode,
    ScaledTopology,
    Spent,
    from_memory,
    held,
    held_nodes,
    in_use,
    spent,
)
from cephlab.tuning import calibrate
from cephlab.tuning.calibrate import core
from cephlab.tuning.constants import current
from cephlab.tuning.held import load_factor
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profilefile import Hardware
from cephlab.tuning.requirements import LoadRequirement, Requirement
from cephlab.tuning.scalemodel import Stand, kind_of, stands_for
from cephlab.tuning.workload import Flow

WITHIN = 1.3
"""Measured / k may be off the prediction by this factor, up or down, where disks or links are the bottleneck: the
kernel holds both exactly. CPUs are worth what an operation costs on another machine, see `allowed_factor`."""
FULL = 0.7
"""A resource with a lower utilisation is no bottleneck: the model calls it one from 80 % on (tuning/model.py)."""

IMAGES = CLIENTS
IMAGE_BYTES = 128 << 20
ROOM = (("bluestore_cache_size", str(10 * IMAGES * IMAGE_BYTES)), ("osd_num_cache_shards", "1"))
"""All images fit into every OSD's memory: a tenth of its cache holds data, the rest metadata and RocksDB
(bluestore_cache_meta_ratio and bluestore_cache_kv_ratio are 0.45 each). One shard, because a PG's objects share one."""
UNCACHED = (("bluestore_default_buffered_read", "false"),)
"""For reads that disks answer: OSDs keep nothing of what they read."""
SMALL_OBJECTS = ("--object-size", "1M")
"""For the images: with a few dozen objects of 4 MiB, one of three nodes is primary of far more than its share."""
SECONDS = {Tier.QUICK: 15.0, Tier.FULL: 60.0}
RAMP_S = 5.0
IDLE_S = 5.0
WARM_BYTES = 1 << 20
"""Block size of the reads that bring the images into memory, before a load that is answered from there."""
MISSED = 0.02
"""Share of a load's reads that may come from elsewhere: from disks instead of memory, or the other way round."""
MOST_IN_FLIGHT = 256


@dataclass(frozen=True)
class Wanted:
    """A load on a declared cluster, and its scale model."""

    hardware: Hardware
    requirement: LoadRequirement
    load: FioLoad
    stands: tuple[Stand, ...]

    @property
    def in_flight(self) -> int:
        return min(MOST_IN_FLIGHT, self.requirement.clients * self.requirement.depth)

    @property
    def name(self) -> str:
        return f"scale.model[profile={self.hardware.profile.name},load={self.requirement.name}]"


def wanted_of(hardware: Hardware, requirement: Requirement) -> Wanted | str:
    """A requirement's scale model, or a sentence on why it has none."""
    load = load_of(requirement)
    if isinstance(load, str):
        return load
    assert isinstance(requirement, LoadRequirement)
    if len(requirement.shapes) > 1:
        return "a mix has no single bottleneck to compare"
    if 0 < requirement.hit_ratio < 1:
        return f"memory answers all of a model's reads or none, and not {percent(requirement.hit_ratio)} of them"
    flow = requirement.shapes[0][1].flow
    try:
        # The figures that a loaded cluster reaches: a kernel limit is exact, a real disk falls short of its data sheet.
        declared = calibrate.hardware(hardware.profile, flow, current())
        return Wanted(hardware, requirement, load, stands_for(declared, requirement.protection))
    except SpecError as error:
        return f"{error.what}: {error.detail}"


def scenario_for(hardware: Hardware, requirement: Requirement) -> Scenario:
    """The scale model of a requirement; if it has none, a scenario that says why and is skipped."""
    wanted = wanted_of(hardware, requirement)
    if isinstance(wanted, Wanted):
        return scenario_of(wanted)
    return Scenario(
        name=f"scale.model[profile={hardware.profile.name},load={requirement.name}]",
        goal="None: this requirement has no scale model.",
        method="Says why.",
        run=partial(_refuse, why=wanted),
        topology=NOWHERE,
    )


def _refuse(stage: Stage, why: str) -> None:
    raise Unavailable(f"{stage.recorder.scenario} has no scale model", why, "see docs/scale.md")


def scenario_of(wanted: Wanted) -> Scenario:
    points, named = [stand.points for stand in wanted.stands], wanted.hardware.profile.name
    return Scenario(
        name=wanted.name,
        goal=f"{named}, scaled down, does its share of the predicted rate and has the predicted bottleneck.",
        method=f"Holds {len(points)} nodes to one share of CPU, disks and links, and runs {wanted.requirement.name}.",
        run=partial(run, wanted=wanted),
        check="figures",
        sees=("measured / k over predicted", "what bounds the model"),
        needs=NEEDS,
        topology=ScaledTopology(
            parts=tuple(round(share / sum(points), 6) for share in points), options=cache_of(wanted)
        ),
    )


def cache_of(wanted: Wanted) -> tuple[tuple[str, str], ...]:
    """Options of the OSDs' caches for a load. Writes get what reads from memory need, to share a cluster with them."""
    return UNCACHED if reads(wanted) and not wanted.requirement.hit_ratio else ROOM


def reads(wanted: Wanted) -> bool:
    ((_, shape),) = wanted.requirement.shapes
    return shape.flow is Flow.READ


def rating_of(home: Home) -> float:
    """7-Zip's rating of all CPUs together, in MIPS: as recorded since this machine was booted, else as it rates them.

    It takes a minute of CPU.
    """
    record = home.images / f"cpus-{boot_id()}.json"
    if not record.is_file():
        write_json(record, {"mips": cpu_rating(require_seven_zip())}, mode=0o644)
    return float(json.loads(record.read_text())["mips"])


def speed_of_a_cpu(stage: Stage) -> float:
    """Speed of one CPU of this machine while all are busy, on the model's scale: by its profile, else measured."""
    cpus, home = psutil.cpu_count() or 1, stage.cluster.run.home
    threads = max(1, cpus // (psutil.cpu_count(logical=False) or cpus))
    points = speed_here(home) or rating_of(home) / cpus / MIPS_PER_POINT
    return core(points * threads, threads, current()) / threads


def run(stage: Stage, wanted: Wanted) -> None:
    """Run the load on the model; record the rate over the predicted one, and the utilisations."""
    cluster = stage.cluster
    topology = scenario_of(wanted).topology
    assert isinstance(topology, ScaledTopology)
    speed = speed_of_a_cpu(stage)
    k = sum(topology.cores) * speed / sum(stand.points for stand in wanted.stands)
    nodes = held_nodes(wanted.stands, topology.cores, k)
    demands, origin = demands_for(stage.recorder.history.events(), cluster.run.home)
    ((_, shape),) = wanted.requirement.shapes
    prediction = predict(demands, wanted.hardware.profile, shape)
    # Where an image lies on disks does not matter to a load that is answered from memory.
    passes = 1 if wanted.requirement.hit_ratio else PASSES
    with images(cluster, wanted.requirement.protection, IMAGES, IMAGE_BYTES, *SMALL_OBJECTS, passes=passes) as targets:
        if wanted.requirement.hit_ratio:
            run_jobs(cluster, _warming(stage, targets))
        idle = idle_share(cluster, nodes)
        with held(cluster, nodes):
            results, use, served = loaded(stage, wanted, targets, nodes)
    fewest = min(result.operations for result in results)
    stage.recorder.witness("operations of the slowest load generator", got=fewest, least=LEAST_OPERATIONS)
    stage.recorder.observe("errors of fio", got=sum(result.main.errors for result in results), wanted=0)
    if reads(wanted):
        as_declared = 1 - abs(wanted.requirement.hit_ratio - served)
        stage.recorder.witness("share of the reads from where the profile says", got=as_declared, least=1 - MISSED)
    modelled = Modelled(k, speed, summed(results).rate, idle, use, allowed_factor(wanted, prediction))
    note(stage, prediction, modelled, origin)


def allowed_factor(wanted: Wanted, prediction: Prediction) -> float:
    """How far the rate may be off. Where CPUs are the bottleneck: by the model's error over published clusters.

    An operation's CPU time was measured on another machine and over its loopback interface. It differs by more than
    WITHIN between machines of the same rating: a message between two nodes mostly costs wake-ups (docs/scale.md).
    """
    if kind_of(prediction.bottleneck) == "CPU":
        return load_factor(wanted.requirement, wanted.hardware.profile)
    return WITHIN


def loaded(
    stage: Stage, wanted: Wanted, targets: Sequence[BlockImage], nodes: Sequence[HeldNode]
) -> tuple[list[FioResult], list[dict[str, float]], float]:
    """Results of fio, utilisation of each node's CPU, disk and network, and the share of bytes read from memory."""
    depth, rest = divmod(wanted.in_flight, len(targets))
    depths = [depth + (number < rest) for number in range(len(targets))]
    jobs = _jobs(stage, targets, wanted.load, wanted.requirement.bs, depths)
    before, began = _spent(stage.cluster, nodes), SYSTEM.monotonic()
    results = run_jobs(stage.cluster, jobs)
    after, took_s = _spent(stage.cluster, nodes), SYSTEM.monotonic() - began
    use = [in_use(node, before[node.name], after[node.name], took_s) for node in nodes]
    return results, use, from_memory(before.values(), after.values())


def _jobs(
    stage: Stage, targets: Sequence[BlockImage], load: FioLoad, block_bytes: int, depths: Sequence[int]
) -> list[tuple[str, FioJob]]:
    """A job for each image, except one that gets none of the operations in flight."""
    more = {"ramp_time": f"{RAMP_S:g}", "norandommap": "1", **load.more}
    jobs = [
        job(stage, target, load.pattern, block_bytes, depth)
        for target, depth in zip(targets, depths, strict=True)
        if depth
    ]
    return [
        (client_node(stage.cluster, number), replace(fio_job, runtime_s=SECONDS[stage.tier], more=more))
        for number, fio_job in enumerate(jobs)
    ]


def _warming(stage: Stage, targets: Sequence[BlockImage]) -> list[tuple[str, FioJob]]:
    """A job for each image that reads all of it once."""
    return [
        (client_node(stage.cluster, number), replace(job(stage, target, "read", WARM_BYTES, 8), runtime_s=0.0, more={}))
        for number, target in enumerate(targets)
    ]


def idle_share(cluster: Cluster, nodes: Sequence[HeldNode]) -> float:
    """Utilisation of the nodes' CPUs without a load."""
    before, began = _spent(cluster, nodes), SYSTEM.monotonic()
    SYSTEM.sleep(IDLE_S)
    after, took_s = _spent(cluster, nodes), SYSTEM.monotonic() - began
    return fmean(in_use(node, before[node.name], after[node.name], took_s)["CPU"] for node in nodes)


def _spent(cluster: Cluster, nodes: Sequence[HeldNode]) -> dict[str, Spent]:
    return {node.name: spent(cluster, node.name) for node in nodes}


@dataclass(frozen=True)
class Modelled:
    """Results of a model. k: its share of the cluster; speed: of one CPU here, in points; rate: operations a second.

    idle: CPU utilisation of the nodes without a load; use: utilisation of each node under load, by resource; within:
    factor by which the rate may be off.
    """

    k: float
    speed: float
    rate: Interval
    idle: float
    use: Sequence[dict[str, float]]
    within: float


def note(stage: Stage, prediction: Prediction, modelled: Modelled, demands: str) -> None:
    """Record the measured rate over k times the predicted one, and the busiest resource against the predicted one.

    Two things do not scale. A model has fewer placement groups than its cluster, so primaries are spread less evenly:
    the rate is multiplied by the load of the busiest node over the mean. And the idle work of an OSD is negligible on
    a whole core, but not on so small a share of one: where CPUs are the bottleneck, only the rest serves the load.
    """
    recorder, use = stage.recorder, modelled.use
    most = {kind: max(node[kind] for node in use) for kind in use[0]}
    busiest = max(most, key=lambda kind: most[kind])
    uneven = most[busiest] / (sum(node[busiest] for node in use) / len(use))
    serving = 1 - modelled.idle if busiest == "CPU" else 1.0
    share = modelled.k * serving * prediction.ops
    steps = (
        f"predicted: {prediction.ops:,.0f} ops/s of {prediction.profile}, limit: {prediction.bottleneck} "
        f"(demands {demands})",
        f"share k of the model: {modelled.k:.4g}, at {modelled.speed:.3g} points for a CPU of this machine; "
        f"{percent(modelled.idle)} of its CPUs in use without a load; "
        f"predicted for it: {share:,.1f} ops/s; measured: {modelled.rate.mean:,.1f} ops/s",
        *(f"{kind} in use at the busiest node: {percent(used, '.0f')}" for kind, used in most.items()),
        f"the busiest node does {uneven:.3f} times the mean: an even model would have done that much more",
    )
    within = modelled.within
    bound = Bound(f"the model within {within:.3g} times", 1 / within, within, steps, basis=Basis.SHAPE)
    value, low, high = (rate * uneven / share for rate in (modelled.rate.mean, modelled.rate.low, modelled.rate.high))
    recorder.figure("measured / k over predicted", value, "", bound, interval=(low, high))
    why = "not judged: only the bottleneck has to be near 100 %, and a witness says whether it was"
    for kind, used in most.items():
        recorder.figure(f"{kind} in use", used, "", Bound(why, basis=Basis.NOTED))
    recorder.witness(f"{busiest} in use, the busiest resource", got=most[busiest], least=FULL)
    recorder.observe(
        "what bounds the model", got=busiest, wanted=kind_of(prediction.bottleneck) or prediction.bottleneck
    )
