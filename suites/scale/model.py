"""A scale model of a declared cluster: its load is run on machines that are held to the same small share of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import psutil

from cephlab.fixtures.expectation import demands_for, speed_here
from cephlab.lab.base.clock import SYSTEM, Deadline
from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.probe import MIPS_PER_POINT, cpu_rating, require_seven_zip
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.fio import FioJob, FioResult
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.block.stand import LEAST_OPERATIONS, UNCACHED, client_node, job, run_jobs
from cephlab.suites.profile.measured import FioLoad, images, load_of, summed
from cephlab.suites.scale.machines import (
    CLIENTS,
    NEEDS,
    HeldNode,
    ScaledTopology,
    Spent,
    held,
    held_nodes,
    in_use,
    spent,
)
from cephlab.tuning import calibrate
from cephlab.tuning.calibrate import core
from cephlab.tuning.constants import current
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.profilefile import Hardware
from cephlab.tuning.requirements import LoadRequirement, Requirement
from cephlab.tuning.scalemodel import Stand, kind_of, stands_for

WITHIN = 1.3
"""Measured / k may be this far from what is predicted, up and down."""
FULL = 0.7
"""A resource in use by less bounds nothing: the model calls one that is used by 80 % a bottleneck (tuning/model.py)."""

IMAGES = CLIENTS
IMAGE_BYTES = 128 << 20
SMALL_OBJECTS = ("--object-size", "1M")
"""Of the images: with a few dozen objects of 4 MiB one of three nodes leads many more of them than its share."""
SECONDS = {Tier.QUICK: 15.0, Tier.FULL: 60.0}
RAMP_S = 5.0
IDLE_S = 5.0
WARM_BYTES = 1 << 20
"""Blocks of the reads before a load that is to be answered from memory: they bring the images there."""
MOST_IN_FLIGHT = 256


@dataclass(frozen=True)
class Wanted:
    """A load on a declared cluster, and how it is predicted and modelled."""

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
    """A requirement's scale model; a sentence on why it has none."""
    load = load_of(requirement)
    if isinstance(load, str):
        return load
    assert isinstance(requirement, LoadRequirement)
    if len(requirement.shapes) > 1:
        return "a mix has no single bottleneck to compare"
    flow = requirement.shapes[0][1].flow
    try:
        # What a loaded cluster gets of its data sheets: a limit of the kernel holds exactly, a real disk falls short.
        declared = calibrate.hardware(hardware.profile, flow, current())
        return Wanted(hardware, requirement, load, stands_for(declared, requirement.protection))
    except SpecError as error:
        return f"{error.what}: {error.detail}"


def scenario_for(hardware: Hardware, requirement: Requirement) -> Scenario:
    """The scale model of a requirement; where it has none, a scenario that says why and is skipped."""
    wanted = wanted_of(hardware, requirement)
    if isinstance(wanted, Wanted):
        return scenario_of(wanted)
    return Scenario(
        name=f"scale.model[profile={hardware.profile.name},load={requirement.name}]",
        goal="Nothing: this requirement has no scale model.",
        method="Says why.",
        run=partial(_refuse, why=wanted),
        topology=NOWHERE,
    )


def _refuse(stage: Stage, why: str) -> None:
    raise Unavailable(f"{stage.recorder.scenario} has no scale model", why, "docs/scale.md")


def scenario_of(wanted: Wanted) -> Scenario:
    points, named = [stand.points for stand in wanted.stands], wanted.hardware.profile.name
    return Scenario(
        name=wanted.name,
        goal=f"{named}, scaled down, does its share of what is predicted, and is bound by the same.",
        method=f"Holds {len(points)} nodes to one share of CPU, disks and links, and runs {wanted.requirement.name}.",
        run=partial(run, wanted=wanted),
        check="figures",
        sees=("measured / k over predicted", "what bounds the model"),
        needs=NEEDS,
        topology=ScaledTopology(parts=tuple(round(each / sum(points), 6) for each in points)),
    )


def speed_of_a_cpu(stage: Stage) -> float:
    """Of this machine, while all its CPUs are busy, on the model's scale: by its profile, else measured now."""
    cpus = psutil.cpu_count() or 1
    threads = max(1, cpus // (psutil.cpu_count(logical=False) or cpus))
    points = speed_here(stage.cluster.run.home) or cpu_rating(require_seven_zip()) / cpus / MIPS_PER_POINT
    return core(points * threads, threads, current()) / threads


def run(stage: Stage, wanted: Wanted) -> None:
    """Run the load on the model; note the rate as a share of the predicted one, and what was busy."""
    cluster = stage.cluster
    topology = scenario_of(wanted).topology
    assert isinstance(topology, ScaledTopology)
    k = sum(topology.cores) * speed_of_a_cpu(stage) / sum(stand.points for stand in wanted.stands)
    nodes = held_nodes(wanted.stands, topology.cores, k)
    demands, origin = demands_for(stage.recorder.history.events(), cluster.run.home)
    ((_, shape),) = wanted.requirement.shapes
    made = predict(demands, wanted.hardware.profile, shape)
    with images(cluster, wanted.requirement.protection, IMAGES, IMAGE_BYTES, *SMALL_OBJECTS) as targets:
        if wanted.requirement.hit_ratio:
            run_jobs(cluster, _jobs(stage, targets, FioLoad("read", {}), WARM_BYTES, 8))
        idle = idle_share(cluster, nodes)
        with held(cluster, nodes):
            results, use = loaded(stage, wanted, targets, nodes)
    fewest = min(result.operations for result in results)
    stage.recorder.witness("operations of the slowest load generator", got=fewest, least=LEAST_OPERATIONS)
    stage.recorder.observe("errors of fio", got=sum(each.main.errors for each in results), wanted=0)
    note(stage, made, Modelled(k, summed(results).rate, idle, use), origin)


def loaded(
    stage: Stage, wanted: Wanted, targets: Sequence[BlockImage], nodes: Sequence[HeldNode]
) -> tuple[list[FioResult], list[dict[str, float]]]:
    """Results of fio, and for each node what it used of CPU, disk and network, as shares of what it may use."""
    jobs = _jobs(stage, targets, wanted.load, wanted.requirement.bs, wanted.in_flight // len(targets))
    before, began = _spent(stage.cluster, nodes), SYSTEM.monotonic()
    results = run_jobs(stage.cluster, jobs)
    after, took = _spent(stage.cluster, nodes), SYSTEM.monotonic() - began
    return results, [in_use(node, before[node.name], after[node.name], took) for node in nodes]


def _jobs(
    stage: Stage, targets: Sequence[BlockImage], load: FioLoad, block_bytes: int, depth: int
) -> list[tuple[str, FioJob]]:
    more = {"ramp_time": f"{RAMP_S:g}", "norandommap": "1", **load.more}
    jobs = [job(stage, target, load.pattern, block_bytes, depth) for target in targets]
    return [
        (
            client_node(stage.cluster, number),
            replace(each, runtime_s=SECONDS[stage.tier], options=UNCACHED, more=more),
        )
        for number, each in enumerate(jobs)
    ]


def idle_share(cluster: Cluster, nodes: Sequence[HeldNode]) -> float:
    """Share of the nodes' CPUs that is used without a load."""
    before, began = _spent(cluster, nodes), SYSTEM.monotonic()
    Deadline.after(IDLE_S).pause(IDLE_S)
    after, took = _spent(cluster, nodes), SYSTEM.monotonic() - began
    return fmean(in_use(node, before[node.name], after[node.name], took)["CPU"] for node in nodes)


def _spent(cluster: Cluster, nodes: Sequence[HeldNode]) -> dict[str, Spent]:
    return {node.name: spent(cluster, node.name) for node in nodes}


@dataclass(frozen=True)
class Modelled:
    """What a model did. k: its share of the cluster; rate: operations a second.

    idle: share of its CPUs that the nodes use without a load; use: of each node with it, by resource.
    """

    k: float
    rate: Interval
    idle: float
    use: Sequence[dict[str, float]]


def note(stage: Stage, made: Prediction, done: Modelled, demands: str) -> None:
    """The measured rate over k times the predicted one, and the busiest resource beside the predicted bottleneck.

    Two things do not scale. A model has fewer placement groups than its cluster, so its nodes lead less evenly: how
    much more the busiest one does than the mean is multiplied out of the rate that it bounds. What an OSD does without
    a load is nothing of a whole core, and a part of so small a share of one: where CPUs bound the model, the rest of
    them serves the load.
    """
    recorder, use = stage.recorder, done.use
    most = {kind: max(node[kind] for node in use) for kind in use[0]}
    busiest = max(most, key=lambda kind: most[kind])
    uneven = most[busiest] / (sum(node[busiest] for node in use) / len(use))
    serving = 1 - done.idle if busiest == "CPU" else 1.0
    share = done.k * serving * made.ops
    steps = (
        f"predicted: {made.ops:,.0f} ops/s of {made.profile}, limit: {made.bottleneck} (demands {demands})",
        f"share k of the model: {done.k:.4g}, of its CPUs {done.idle:.1%} are used without a load; predicted of it: "
        f"{share:,.1f} ops/s; measured: {done.rate.mean:,.1f} ops/s",
        *(f"{kind} in use at the busiest node: {used:.0%}" for kind, used in most.items()),
        f"the busiest node does {uneven:.3f} times the mean: so much more an even model would have done",
    )
    bound = Bound(f"the model within {WITHIN:g} times", 1 / WITHIN, WITHIN, steps, basis=Basis.SHAPE)
    value, low, high = (each * uneven / share for each in (done.rate.mean, done.rate.low, done.rate.high))
    recorder.figure("measured / k over predicted", value, "", bound, interval=(low, high))
    for kind, used in most.items():
        recorder.figure(f"{kind} in use", used, "", Bound("what bounds the model is full", basis=Basis.SHAPE))
    recorder.witness(f"{busiest} in use, the busiest resource", got=most[busiest], least=FULL)
    recorder.observe("what bounds the model", got=busiest, wanted=kind_of(made.bottleneck) or made.bottleneck)
