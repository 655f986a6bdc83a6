"""Measures what one operation costs each role of a cluster: fills a pool, loads it, and computes a demand."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL as OBJECT_POOL
from cephlab.lab.cluster.gateway import gateway
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.providers.host import cpu_time_distortion, has_own_kernel
from cephlab.lab.services.rgw import NO_DELAY
from cephlab.lab.telemetry import counters
from cephlab.lab.telemetry.bench import Bench, load_in_passes
from cephlab.lab.telemetry.clients import WHOLE_POOL, BlockClients, Clients, ObjectClients, PassClients, job_of
from cephlab.lab.telemetry.demand import OSD_ROLES, Demand, Interval, Resource, Role
from cephlab.lab.telemetry.demandfile import Batch, Measurement
from cephlab.lab.telemetry.instructions import Instructions, obstacle
from cephlab.lab.telemetry.meter import Meter, accounted_by, runs_here
from cephlab.lab.telemetry.pace import Reference, kept_awake
from cephlab.lab.telemetry.place import ELSEWHERE, MACHINE, Say, machine_in
from cephlab.lab.telemetry.plan import MIX, Loaded, Plan
from cephlab.lab.telemetry.readings import Spent
from cephlab.lab.telemetry.statistics import interval, linearity
from cephlab.lab.workloads import image, radosbench, s3
from cephlab.lab.workloads.image import BlockImage

POOL = "measured"
DATA_POOL = "measured-data"
PG_NUM = 16
_WRITTEN_S = 600.0


def measure(
    cluster: Cluster,
    plan: Plan,
    *,
    image_key: str,
    say: Say,
    conditions: Mapping[str, str],
) -> Measurement:
    """Measure one operation on a cluster that does nothing else, then remove everything created for it.

    Raises SpecError if the shape of the cluster does not fit, LabBroken if the load was not real.
    """
    with ExitStack() as undo:
        clients = undo.enter_context(prepared(cluster, plan, say))
        meter = undo.enter_context(metering(cluster, clients))
        reference = undo.enter_context(steady(cluster))
        bench = Bench(cluster, meter, reference, plan, clients, say, SYSTEM)
        say(f"at rest for {plan.idle_s:g} s")
        idle = bench.idle()
        put = partial(load_in_passes, bench) if plan.passes else bench.load
        loaded = put(plan.load, idle, plan.stop)
        low = put(plan.low, idle, plan.stop) if plan.low else None
    linear = "not checked: one load only"
    if low:
        linear = linearity(low.main_costs(), loaded.main_costs(), low_load=str(plan.low), high_load=str(plan.load))
    return Measurement(
        demand=demand_of(cluster, plan, loaded, image_key),
        batches=loaded.batches,
        lower=low.batches if low else (),
        stopped=loaded.stopped,
        linearity=linear,
        conditions={**conditions, **conditions_of(cluster, plan, loaded)},
    )


@contextmanager
def metering(cluster: Cluster, clients: Clients) -> Iterator[Meter]:
    """A meter of all roles of a cluster under load, for the duration of a block."""
    count = None if obstacle() else Instructions
    meter = Meter(cluster, {**roles_of(cluster), **clients.serving()}, count=count)
    try:
        yield meter
    finally:
        meter.close()


@contextmanager
def steady(cluster: Cluster) -> Iterator[Reference]:
    """Keep CPUs awake and run the reference work during a load, if the cluster runs on this machine.

    For a cluster elsewhere both would be useless: then neither runs, and batches have no reference.
    """
    reference = Reference()
    with ExitStack() as undo:
        if runs_here(cluster):
            undo.enter_context(kept_awake())
            undo.enter_context(reference)
        yield reference


def roles_of(cluster: Cluster) -> dict[Role, list[Daemon]]:
    """The daemons of each role, given that the first OSD is the primary of every PG."""
    first, *rest = cluster.osd_ids()
    return {
        Role.PRIMARY: [cluster.daemon(f"osd.{first}")],
        Role.REPLICA: [cluster.daemon(f"osd.{osd}") for osd in rest],
        Role.MON: [daemon for daemon in cluster.daemons.values() if daemon.kind == "mon"],
        Role.MGR: [daemon for daemon in cluster.daemons.values() if daemon.kind == "mgr"],
    }


@contextmanager
def prepared(cluster: Cluster, plan: Plan, say: Say) -> Iterator[Clients]:
    """Clients for the duration of a block, with the data that they read and a pool whose primary is the first OSD."""
    operation = plan.operation
    if operation.shards != len(cluster.osd_ids()):
        raise SpecError(
            f"{operation.shards} copies or shards cannot be told apart on {how_many(len(cluster.osd_ids()), 'OSD')}",
            "every OSD must hold one copy or shard of each PG",
            f"measure on {how_many(operation.shards, 'OSD')}, each on its own node",
        )
    prepare = _objects if plan.objects else _whole_objects if plan.passes else _images
    with prepare(cluster, plan, say) as clients:
        yield clients


@contextmanager
def _whole_objects(cluster: Cluster, plan: Plan, say: Say) -> Iterator[Clients]:
    """Objects for each client, written by rados bench."""
    operation = plan.operation
    kind = PoolKind("erasure" if operation.k else "replicated", operation.shards, k=operation.k, m=operation.m)
    with ExitStack() as undo:
        undo.enter_context(pools.pool(cluster, WHOLE_POOL, kind, pg_num=PG_NUM))
        undo.enter_context(pools.primary_is(cluster, cluster.osd_ids()[0], WHOLE_POOL))
        clients = PassClients(cluster, plan)
        for number, node in enumerate(plan.nodes):
            job = clients.job(number, "write", operation.depth, _WRITTEN_S * cluster.patience)
            say(f"writing {plan.image_bytes >> 20} MiB in objects of {operation.block_bytes} bytes")
            radosbench.run(cluster, node, job)
        yield clients


@contextmanager
def _objects(cluster: Cluster, plan: Plan, say: Say) -> Iterator[Clients]:
    """A gateway, and a bucket with every object put once."""
    operation = plan.operation
    kind = PoolKind("objects", operation.shards, k=operation.k, m=operation.m)
    say(f"starting a gateway on {plan.gateway}")
    with (
        gateway(cluster, plan.gateway, kind, pg_num=PG_NUM) as serving,
        pools.primary_is(cluster, cluster.osd_ids()[0], OBJECT_POOL),
    ):
        job = job_of(plan)
        say(f"making a bucket of {how_many(job.objects, 'object')} of {job.object_bytes} bytes")
        if plan.operation.name != s3.DELETE:  # objects to delete are put again before each load
            s3.fill(cluster.hosts[plan.nodes[0]], serving, job, patience=cluster.patience)
        yield ObjectClients(cluster, plan, serving)


@contextmanager
def _images(cluster: Cluster, plan: Plan, say: Say) -> Iterator[Clients]:
    """An image for each client, written twice."""
    operation = plan.operation
    copies = PoolKind("replicated", min(3, operation.shards))
    with ExitStack() as undo:
        undo.enter_context(pools.pool(cluster, POOL, copies, pg_num=PG_NUM))
        more = []
        if operation.k:
            kind = PoolKind("erasure", operation.shards, k=operation.k, m=operation.m)
            more = ["--data-pool", undo.enter_context(pools.pool(cluster, DATA_POOL, kind, pg_num=PG_NUM))]
        data = DATA_POOL if operation.k else POOL
        undo.enter_context(pools.primary_is(cluster, cluster.osd_ids()[0], data))
        images = tuple(BlockImage(POOL, f"image{number}", plan.image_bytes) for number in range(len(plan.nodes)))
        for node, target in zip(plan.nodes, images, strict=True):
            image.create(cluster, node, target, *more)
            say(f"writing an image of {plan.image_bytes >> 20} MiB {image.PASSES} times")
            image.precondition(cluster, node, target)
            if "read" in operation.name or MIX.fullmatch(operation.name):
                image.require_written(cluster, node, target)
        yield BlockClients(cluster, plan, images)


def demand_of(cluster: Cluster, plan: Plan, loaded: Loaded, image_key: str) -> Demand:
    """The demand of a load.

    The cost of S3 clients is left out: they are a program of the lab, and the cost of other S3 clients differs.
    """
    ours = {Role.CLIENT} if plan.objects else set()
    osds = roles_of(cluster)[Role.PRIMARY] + roles_of(cluster)[Role.REPLICA]
    whole = loaded.whole
    return Demand(
        operation=plan.operation,
        release=cluster.spec.release,
        arch=osds[0].host.arch,
        image=image_key,
        costs={role: costs for role, costs in intervals(loaded.batches).items() if role not in ours},
        memory_bytes={
            role: usage.resident_bytes // max(1, len(roles_of(cluster).get(role, ())))
            for role, usage in whole.usage.items()
            if role not in ours
        },
        counters=explaining(loaded),
        emulated=not_native(cluster) is not None,
        threads={
            role: {name: spent / loaded.operations for name, spent in usage.threads.items() if spent > 0}
            for role, usage in whole.usage.items()
            if role not in ours
        },
    )


def intervals(batches: tuple[Batch, ...]) -> dict[Role, dict[Resource, Interval]]:
    """Intervals over the batches, for each role and resource that every batch has."""
    first = batches[0].costs
    return {
        role: {
            resource: interval([batch.costs[role][resource] for batch in batches])
            for resource in first[role]
            if all(resource in batch.costs.get(role, {}) for batch in batches)
        }
        for role in first
        if all(role in batch.costs for batch in batches)
    }


def explaining(loaded: Loaded) -> dict[str, float]:
    """Ceph's counters per operation that explain a cost, primary and replicas together."""
    shares = [
        {name: value / loaded.ceph_operations[role] for name, value in changed.items()}
        for role, changed in loaded.whole.ceph.items()
        if role in OSD_ROLES
    ]
    summed = counters.total(shares)
    return {name: round(value, 9) for name, value in sorted(summed.items()) if name.startswith(counters.EXPLAINING)}


def not_native(cluster: Cluster) -> str | None:
    """Why the CPU time of the OSDs of a cluster says nothing about real hardware, or None."""
    hosts = [cluster.daemon(f"osd.{osd}").host for osd in cluster.osd_ids()]
    return next((why for host in hosts if (why := cpu_time_distortion(host))), None)


def conditions_of(cluster: Cluster, plan: Plan, loaded: Loaded) -> dict[str, str]:
    """How a load was measured, and its results other than costs."""
    whole = loaded.whole
    share = whole.harness_s / whole.cpu_s if whole.cpu_s else 0.0
    return {
        "provider": cluster.provider_name,
        "native": not_native(cluster) or "yes",
        "disks": "memory" if any(disk.in_memory for node in cluster.spec.nodes for disk in node.disks) else "file",
        "operations": f"{loaded.operations:.0f}",
        "iops": f"{loaded.operations / whole.seconds:.1f}",
        "latency_mean_s": f"{loaded.latency_mean_s:.6f}",
        "requests_per_operation": f"{loaded.requests / loaded.ceph_operations[Role.PRIMARY]:.4f}",
        "harness_share": f"{share:.4f}",
        "other_cpus": f"{whole.others_s / whole.seconds:.2f}",
        "image_bytes": str(plan.image_bytes),
        **({"gateway": NO_DELAY} if plan.objects else {}),
        **_accounting(cluster, whole),
        **{f"client {key}": value for key, value in plan.client_options.items()},
        **{f"option {key}": value for key, value in cluster.spec.options.items()},
    }


def _accounting(cluster: Cluster, whole: Spent) -> dict[str, str]:
    """Whose clocks a measurement used, and on which machine, if that is not this one."""
    here = runs_here(cluster)
    host = cluster.daemon(f"osd.{cluster.osd_ids()[0]}").host
    conditions = {
        "accounted_by": accounted_by(cluster),
        "kept_awake": "this machine's CPUs" if here else "none: the cluster runs elsewhere",
    }
    if has_own_kernel(host):
        conditions["instructions"] = f"not counted: {host.name} has its own kernel"
        conditions["host kernel"] = host.facts().kernel
    else:
        conditions["instructions"] = (obstacle() or "counted") if here else f"not counted: {host.name} is elsewhere"
    if whole.machine_s:
        conditions["guest_clocks"] = f"{whole.clock_s / whole.machine_s:.2f} of what their machines spent here"
    if not here:
        conditions |= {MACHINE: ELSEWHERE, **machine_in(host.read(PurePosixPath("/proc/cpuinfo")).decode())}
    return conditions
