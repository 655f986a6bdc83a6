"""The scenarios of a job: one for its objects, one for each setting of fio, each rados bench and each database."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cephlab.lab.jobs.jobfile import Job
from cephlab.lab.scenario.scenario import Scenario, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.block import papers
from cephlab.suites.block.stand import ANYWHERE, TOPOLOGY, MeasuredTopology
from cephlab.suites.dmcache.stand import scenario_on_stand
from cephlab.suites.job import blocks, databases, objects
from cephlab.suites.object.stand import GATEWAYS

QUICK = ("altra-10m-puts",)
"""Jobs of papers that the quick tier runs too."""


def scenarios_of(job: Job, *, asked: bool = False) -> list[Scenario]:
    """All scenarios of a job. asked: whether the run was given this job, which then runs in every tier."""
    tier = Tier.QUICK if asked or job.name in QUICK else Tier.FULL
    return [replace(each, tier=tier) for each in (*_objects(job), *_blocks(job), *_benches(job), *_databases(job))]


def _with_options(topology: Topology, job: Job) -> Topology:
    return replace(topology, options=(*topology.options, *sorted(job.options.items()))) if job.options else topology


def _objects(job: Job) -> Iterator[Scenario]:
    if job.objects:
        yield Scenario(
            name=f"job.{job.name}[part=objects]",
            goal=f"The object loads of {job.name} run one after the other, and every answer is right.",
            method=f"{job.source}: {', '.join(load.name for load in job.objects)}, scaled to the cluster.",
            run=partial(objects.run, job=job),
            check="figures",
            sees=tuple(f"{re.escape(load.name)}: bytes of bodies" for load in job.objects),
            topology=_with_options(GATEWAYS, job),
        )


def _measured(job: Job, hosts: int) -> Topology:
    """The cluster for block loads: an existing one is enough where the job has no options of its own."""
    if job.options or hosts > TOPOLOGY.native:
        return _with_options(MeasuredTopology(native=max(hosts, TOPOLOGY.native), machines=TOPOLOGY.machines), job)
    return ANYWHERE


def _blocks(job: Job) -> Iterator[Scenario]:
    for load in job.blocks:
        for setting in blocks.settings_of(job, load):
            topology = _measured(job, setting.kind.size)
            yield replace(papers.scenario(setting), name=f"job.{job.name}[part={setting.name}]", topology=topology)


def _benches(job: Job) -> Iterator[Scenario]:
    for load in job.benches:
        kind = job.kind_of(load.pool)
        yield Scenario(
            name=f"job.{job.name}[part={load.name}]",
            goal="rados bench writes with every combination of the job, and reads from the objects that it wrote.",
            method=f"{job.source}: {', '.join(load.modes)}, scaled to the cluster.",
            run=partial(blocks.bench, load=load, job=job),
            check="figures",
            sees=("rados bench: .*",),
            topology=_measured(job, kind.size),
        )


def _databases(job: Job) -> Iterator[Scenario]:
    for load in job.databases:
        scenario = scenario_on_stand(
            name=f"job.{job.name}[part={load.name}]",
            goal="A database on an RBD image commits transactions with every number of threads and rows.",
            method=f"{job.source}: sysbench on MariaDB without a cache, scaled to the cluster.",
            run=partial(databases.run, load=load),
            sees=(".* rows, .* threads.*",),
        )
        yield replace(scenario, topology=_with_options(scenario.topology, job))
