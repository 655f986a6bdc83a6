"""Work per watt: the power of the machines while images are written, from every source, with and without idle."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from cephlab.lab.base import clock
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.bmc import named_bmcs
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import (
    Energy,
    Reading,
    apart,
    disagreement,
    energy_value,
    watts_of_all,
    work_per_watt,
)
from cephlab.lab.telemetry.watts import WattMeter, at_the_plug, meter_of
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.bias import Bias, watched
from cephlab.suites.block.stand import CLIENTS, client_node, job, run_jobs, scenario_of_load, total, written
from cephlab.suites.machines import are_machines_of, profile_of
from cephlab.tuning.profilefile import find_hardware
from cephlab.tuning.requirements import LoadRequirement, PowerRequirement, Requirement

BLOCK_BYTES = 4096
DEPTH = 8
IDLE_S = {Tier.QUICK: 20.0, Tier.FULL: 120.0}
LOAD_S = {Tier.QUICK: 30.0, Tier.FULL: 300.0}
RAMP_S = 5.0
_NOTED = Bound("recorded only: no power requirement applies to these machines", basis=Basis.NOTED)


@dataclass(frozen=True)
class Taken:
    """What was measured. energies: of each machine by each source; rate: of all clients; work: architecture ->
    operations per second of its OSDs, including replicas; archs: machine -> architecture; bias: of the rate.
    """

    energies: Sequence[Energy]
    rate: Interval
    work: Mapping[str, float]
    archs: Mapping[str, str]
    bias: Bias


@dataclass(frozen=True)
class Limits:
    """The requirements of a profile for this load; None on machines that are not the profile's."""

    watts: float | None = None
    per_watt: float | None = None


def run(stage: Stage) -> None:
    """Measure the power of an idle cluster, then of the cluster while images are written."""
    cluster = stage.cluster
    meter = meter_of(cluster, named_bmcs())
    require_watts(meter)
    with written(stage, CLIENTS) as images:
        fio_jobs = [job(stage, target, "randwrite", BLOCK_BYTES, DEPTH, ramp_time=f"{RAMP_S:g}") for target in images]
        lasting = [replace(fio_job, runtime_s=LOAD_S[stage.tier]) for fio_job in fio_jobs]
        jobs = [(client_node(cluster, number), fio_job) for number, fio_job in enumerate(lasting)]
        judged = limits_of(stage) != Limits()
        with meter.looking(), watched(stage, jobs, judged=judged) as watch:
            began_s = time.time()
            clock.SYSTEM.sleep(IDLE_S[stage.tier])
            before, loaded_s = operations_of(cluster), time.time()
            results = run_jobs(cluster, jobs)
            ended_s, after = time.time(), operations_of(cluster)
    seconds = ended_s - loaded_s
    energies = meter.energies((loaded_s + RAMP_S, ended_s), (began_s, loaded_s))
    unread = sorted(meter.unread)
    stage.recorder.record("watts", energies=[energy_value(energy) for energy in energies], unread=unread)
    draw(stage.recorder, meter.readings, began_s, loaded_s)
    archs = {name: host.arch.value for name, host in meter.hosts.items()}
    work = {arch: (after[arch] - operations) / seconds for arch, operations in before.items()}
    bias = watch.bias("writes")
    note(stage.recorder, Taken(energies, bias.rate(rate_of(results)), work, archs, bias), limits_of(stage))


def require_watts(meter: WattMeter) -> None:
    """Unavailable, with a list of what could not be read, if no machine reports its power."""
    meter.look()
    clock.SYSTEM.sleep(1.0)
    meter.look()
    if not meter.readings:
        lacks = "\n".join(sorted(meter.unread)) or "no power sensor, no energy counter, no BMC named"
        raise Unavailable("no machine reports its power", lacks, "docs/power.md: what is read, how to name a BMC")


def operations_of(cluster: Cluster) -> dict[str, float]:
    """Architecture -> operations that its OSDs have done, including those of replicas."""
    operations: dict[str, float] = {}
    for osd, counted in counters.of_osds(cluster).items():
        arch = cluster.daemon(f"osd.{osd}").host.arch.value
        operations[arch] = operations.get(arch, 0.0) + counted.get("osd.op", 0.0) + counted.get("osd.subop", 0.0)
    return operations


def rate_of(results: Sequence[FioResult]) -> Interval:
    """Operations per second of all clients."""
    runs = [(result.iops, result.main.iops_stddev, result.latency_mean_s) for result in results]
    return total(runs, min(result.main.iops_samples for result in results))[0]


def limits_of(stage: Stage) -> Limits:
    """The profile's requirements, if the run uses the profile's machines."""
    profile = profile_of(stage)
    if profile is None or not are_machines_of(stage.cluster.provider, profile):
        return Limits()
    home = stage.cluster.run.home
    return asked_of(find_hardware(stage.profile, home.profiles, stage.changes).requirements)


def asked_of(requirements: Sequence[Requirement]) -> Limits:
    """The required watts of all nodes, and the required work per watt for 4 KiB random writes."""
    plugs = [requirement.at_most.value for requirement in requirements if isinstance(requirement, PowerRequirement)]
    works = [
        requirement.per_watt_at_least.value
        for requirement in requirements
        if isinstance(requirement, LoadRequirement)
        and requirement.per_watt_at_least
        and (requirement.op, requirement.bs) == ("randwrite", BLOCK_BYTES)
    ]
    return Limits(min(plugs, default=None), max(works, default=None))


def note(recorder: Recorder, taken: Taken, limits: Limits) -> None:
    """Record every machine by every source, how far two sources differ, and the work per watt of all machines."""
    recorder.witness("writes a second", got=taken.rate.mean, least=1)
    for energy in taken.energies:
        note_one(recorder, energy)
    for energy, other in combinations(taken.energies, 2):
        if (energy.node, energy.scope) == (other.node, other.scope):
            name = f"{energy.node}: {energy.scope} by {energy.source} beside {other.source}, share apart"
            why = f"recorded only: it tells how far to trust both; {disagreement(energy, other) or 'within 3 %'}"
            recorder.figure(name, apart(energy, other), "", Bound(why, basis=Basis.NOTED))
    plug = at_the_plug(taken.energies, sorted(taken.archs))
    if limits != Limits():
        # A model, or the watts of one machine only, cannot decide about all machines.
        recorder.witness("machines whose watts were measured at the plug", got=len(plug), least=len(taken.archs))
    if plug:
        note_whole(recorder, taken, plug, limits)


def note_one(recorder: Recorder, each: Energy) -> None:
    """Record one machine by one source, loaded, idle and above idle. A faulty sensor makes the run inconclusive."""
    name = f"{each.node}: {each.scope} by {each.source}"
    sensor = f"sound sensor, {name}: {'; '.join(each.trouble) or 'nothing odd'}"
    recorder.witness(sensor, got=float(each.measured), least=1)
    for when, watts in (("loaded", each.watts), ("idle", each.idle_w), ("above idle", each.above_idle_w)):
        if watts is not None:
            recorder.figure(f"{name}, {when}", watts, "W", _NOTED)


def note_whole(recorder: Recorder, taken: Taken, plug: Sequence[Energy], limits: Limits) -> None:
    """Record the watts of all machines at the plug by one source, their work per watt, and that by architecture."""
    efficiency = work_per_watt(taken.rate, plug)
    source = plug[0].source
    bound = _NOTED
    if limits.watts is not None:
        why = "the profile's power requirement"
        bound = taken.bias.told_of_watts(Bound(why, most=limits.watts, basis=Basis.PROFILE))
    sure = taken.bias.watts(watts_of_all(plug))
    recorder.figure(f"watts of all machines by {source}", sure.mean, "W", bound, interval=sure.ends)
    bound = _NOTED
    if limits.per_watt is not None:
        why = "the profile's requirement for work per watt"
        bound = taken.bias.told(Bound(why, least=limits.per_watt, basis=Basis.PROFILE))
    recorder.figure(f"work per watt by {source}", efficiency.mean, "ops/J", bound, interval=efficiency.ends)
    of_arch: dict[str, list[Energy]] = {}
    for energy in plug:
        of_arch.setdefault(taken.archs[energy.node], []).append(energy)
    for arch, energies in sorted(of_arch.items()) if len(of_arch) > 1 else ():
        own = taken.work[arch]
        beside = work_per_watt(Interval(own, own, own, taken.rate.samples), energies)
        name = f"{arch}: operations of OSDs per watt by {source}"
        recorder.figure(name, beside.mean, "ops/J", _NOTED, interval=beside.ends)


def draw(recorder: Recorder, readings: Sequence[Reading], began_s: float, loaded_s: float) -> None:
    """Draw watts over time, with a panel for each source and scope, so that they cannot be confused."""
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for reading in readings:
        panel = f"{reading.scope} by {reading.source}, W"
        lines.setdefault((panel, reading.node), []).append((reading.at_s - began_s, reading.watts))
    chart_lines = [Line(panel, node, tuple(points)) for (panel, node), points in lines.items()]
    record_series(recorder, "watts over time", chart_lines, axis="s", marks={"idle": 0.0, "load": loaded_s - began_s})


SCENARIOS = (
    scenario_of_load(
        name="block.watts",
        goal="The power of the machines can be measured while images are written, and so can the work per watt.",
        method="Reads sensors, energy counters and BMCs, idle and under 4 KiB writes; keeps sources and scopes apart.",
        run=run,
        sees=("writes a second", "sound sensor, .*", ".*, loaded"),
    ),
)
