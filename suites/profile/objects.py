"""Measures a load of objects: S3 clients on all client machines at once, through the existing endpoints."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.bmc import named_bmcs
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval
from cephlab.lab.telemetry.watts import meter_of
from cephlab.lab.workloads.fiolatency import Window
from cephlab.lab.workloads.fiolatency import filled as filled_up
from cephlab.lab.workloads.s3_load_program import FILL, RUN
from cephlab.lab.workloads.s3buckets import new_buckets, refused
from cephlab.lab.workloads.s3fleet import Fleet, run_together
from cephlab.lab.workloads.s3load import Entrance, Over, S3Load, S3Result, constant
from cephlab.suites.bias import FULL_CPU, Bias, at_limit, from_memory, note_cpu
from cephlab.suites.block.scale import scale
from cephlab.suites.block.stand import LEAST_OPERATIONS, beside, client_node
from cephlab.suites.object.stand import now_s
from cephlab.suites.profile.measured import IMAGE_BYTES, RAMP_S, SECONDS, Measured, at_the_plugs, shards_of
from cephlab.suites.standing.s3load import entrances
from cephlab.tuning.profile import Profile
from cephlab.tuning.requirements import LoadRequirement, Protection

BUCKET = "wanted-s3-"
"""Prefix of bucket names, followed by the number of the client and 0, for example wanted-s3-1-0."""
WORKERS = 4
"""Most requests in flight of one client: it is a Python process, which uses one CPU at most."""
MOST_OBJECTS = {Tier.QUICK: 1000, Tier.FULL: 10_000}
PAGE = 1000
"""Objects in each bucket that is listed: one full page, as in the model."""
WINDOW_S = 1.0
"""Clients sum up their operations in windows of this length, because a run has millions."""
LEAD_S = 1.0
EACH_S = 0.05
"""Time to tell one client when to begin."""
RAMP_SHARE = 1 / 7
"""Share of the windows that are left out at the beginning: RAMP_S of a quick run."""
FILL_S = 1800.0
SEEN_S = 60.0
"""Ceph's statistics of pools are a few seconds old."""
LEAST_GROWTH = 0.5
"""Share of the bytes put by which the pool of the objects must have grown."""
NEW_OBJECTS = {Tier.QUICK: 40_000, Tier.FULL: 120_000}
"""Most new objects of one client. A put of an existing object costs more: the gateway sends it to its OSD twice."""
SINGLE = ("delete", "get", "list", "put")
MIXED = {"get", "put"}


def unmade(requirement: LoadRequirement) -> str:
    """Why no S3 clients make a load of objects; empty if they do."""
    mix = requirement.mix
    if requirement.op in SINGLE or (mix and set(mix) <= MIXED):
        return ""
    return f"a mix of {' and '.join(mix)} is not made: deletes and lists change with the objects that are left"


@dataclass(frozen=True)
class Client:
    """One process on a client machine."""

    host: Host
    load: S3Load


def clients_of(stage: Stage, profile: Profile, requirement: LoadRequirement) -> list[Client]:
    """Each load generator as processes of at most WORKERS requests in flight, on the client machines in turn."""
    cluster, guard = stage.cluster, requirement.protection
    size = requirement.bs
    processes = [
        (cluster.hosts[client_node(cluster, generator)], min(WORKERS, requirement.depth - first))
        for generator in range(requirement.clients)
        for first in range(0, requirement.depth, WORKERS)
    ]
    copies, count = shards_of(guard) / (guard.k or 1), len(processes)
    image_bytes = scale(profile).image_bytes(IMAGE_BYTES, count, copies)
    objects = max(2 * WORKERS, min(MOST_OBJECTS[stage.tier], image_bytes // size))
    mix = requirement.mix or {requirement.op: 1.0}
    more: dict[str, object] = {}
    if requirement.op == "list":
        objects = PAGE
    elif requirement.op == "delete":
        more = {"operations": objects, "over": {"delete": Over(in_order=True)}}
    elif "put" in mix:
        # Parts beyond the first 4 MiB of an object stay on the disks until Ceph collects them.
        room = scale(profile).image_bytes(1 << 60, count, copies)
        new, there = max(LEAST_OPERATIONS, min(NEW_OBJECTS[stage.tier], room // size)), ((1, objects, 1.0),)
        over = {FILL: Over(objects=there), "get": Over(objects=there)}
        over["put"] = Over(objects=((objects + 1, objects + new, 1.0),), in_order=True)
        more = {"operations": int(new / mix["put"]), "over": over}
        objects += new
    load = S3Load(
        mix=mix,
        sizes=constant(size),
        objects=objects,
        page=PAGE,
        window_s=WINDOW_S,
        runtime_s=RAMP_S + SECONDS[stage.tier],
        own_buckets=True,
        **more,  # type: ignore[arg-type]
    )
    return [
        Client(host, replace(load, bucket=f"{BUCKET}{number}-", workers=workers, seed=stage.rng.randrange(1 << 31)))
        for number, (host, workers) in enumerate(processes)
    ]


def measure_objects(stage: Stage, requirement: LoadRequirement, profile: Profile) -> Measured | str:
    """Run all clients at once; a sentence if the endpoints store objects with another protection."""
    cluster, clients = stage.cluster, clients_of(stage, profile, requirement)
    before = stored(cluster)
    with (
        entrances(cluster, [f"{client.load.bucket}0" for client in clients]) as doors,
        filled(cluster, clients, doors) as put_bytes,
    ):
        pool = grown(cluster, before, put_bytes)
        guard = protection_of(cluster, pool) if pool else None
        if guard != requirement.protection:
            where = f"pool {pool!r} with {guard}" if pool else "no pool that grew by what was put"
            return f"the endpoints store objects in {where}, not with {requirement.protection}"
        meter = meter_of(cluster, named_bmcs())
        with meter.looking():
            fleet = together(cluster, clients, doors, RUN)
        trust(stage, fleet)
        total = summed(fleet)
        stage.recorder.witness("operations in the measured time", got=total.operations, least=LEAST_OPERATIONS)
        ahead_s = now_s(clients[0].host) - time.time()
        plug, unplugged = at_the_plugs(stage.recorder, meter, (total.first_s - ahead_s, total.last_s - ahead_s))
        bias = bias_of(stage, requirement, clients, fleet, put_bytes)
    return Measured(total.rate, total.mean, total.p99, plug, unplugged, sentences_of(clients, doors, pool)).biased(bias)


def together(cluster: Cluster, clients: Sequence[Client], doors: Sequence[Entrance], phase: str) -> Fleet:
    """Run one phase of every client's load."""
    loads = [(client.host, replace(client.load, phases=(phase,))) for client in clients]
    lead_s = LEAD_S + EACH_S * len(loads)
    return run_together(loads, doors, lead_s=lead_s, timeout_s=most_s(cluster, clients))


def most_s(cluster: Cluster, clients: Sequence[Client]) -> float:
    """How long a phase may take."""
    return (FILL_S + clients[0].load.runtime_s) * cluster.patience


@contextmanager
def filled(cluster: Cluster, clients: Sequence[Client], doors: Sequence[Entrance]) -> Iterator[int]:
    """Every client's new bucket with its objects, inside the block; yields the bytes of all objects.

    LabBroken if a bucket exists already, cannot be filled, or is left.
    """
    loads = [(client.host, client.load) for client in clients]
    with new_buckets(cluster, loads, doors, timeout_s=most_s(cluster, clients)) as foreign:
        fleet = together(cluster, clients, doors, FILL)
        foreign.update(refused(fleet, loads))
        wrong = {name: f"{result.errors} {result.wrong}" for name, result in fleet.results.items() if failed(result)}
        if bad := {**fleet.lost, **wrong}:
            raise broken("could not fill a bucket", bad, "see the machines of the clients")
        yield sum(op.bytes for result in fleet.results.values() for op in result.of(FILL))


def failed(result: S3Result) -> bool:
    return bool(result.errors or result.wrong)


def broken(what: str, clients: Mapping[str, str], hint: str) -> LabBroken:
    """The error of clients that failed, with what each of them said."""
    lines = "\n".join(f"{name}: {why}" for name, why in clients.items())
    return LabBroken(f"{how_many(len(clients), 'S3 client')} {what}", lines, hint)


def stored(cluster: Cluster) -> dict[str, float]:
    """Pool -> bytes that clients stored in it."""
    return {pool["name"]: float(pool["stats"]["stored"]) for pool in cluster.client.mon("df")["pools"]}


def grown(cluster: Cluster, before: Mapping[str, float], put_bytes: float) -> str:
    """The pool that holds the objects: the only one that grew by enough; empty if there is none, or another one."""
    deadline = Deadline.after(SEEN_S * cluster.patience)
    while True:
        growth = {pool: stored_bytes - before.get(pool, 0.0) for pool, stored_bytes in stored(cluster).items()}
        grew = [pool for pool, bytes_ in growth.items() if bytes_ >= max(1.0, put_bytes * LEAST_GROWTH)]
        if grew or deadline.passed():
            return grew[0] if len(grew) == 1 else ""
        deadline.pause(1.0)


def protection_of(cluster: Cluster, pool: str) -> Protection:
    """Copies or erasure code of a pool."""
    known = pools.by_name(cluster)[pool]
    if not known["erasure_code_profile"]:
        return Protection(int(known["size"]))
    profile = cluster.client.mon("osd erasure-code-profile get", name=known["erasure_code_profile"])
    return Protection(k=int(profile["k"]), m=int(profile["m"]))


def trust(stage: Stage, fleet: Fleet) -> None:
    """Observe that every answer was right and none an error; LabBroken if a client was lost."""
    if fleet.lost:
        raise broken("was lost", fleet.lost, "see the machine of the client")
    whole = fleet.whole
    operations = {name: sum(window.operations for window in result.windows) for name, result in fleet.results.items()}
    busy = {name: round(result.busy, 3) for name, result in fleet.results.items()}
    stage.recorder.record("s3_clients", operations=operations, client_busy=busy)
    stage.recorder.observe("wrong answers", got=list(whole.wrong), wanted=[], of=sum(operations.values()))
    stage.recorder.observe("errors", got=whole.errors, wanted={}, of=sum(operations.values()))


@dataclass(frozen=True)
class Summed:
    """Of all clients, from first_s to last_s by the clock of the first host: the time in which all worked."""

    first_s: float
    last_s: float
    operations: int
    rate: Interval
    mean: Interval
    p99: Interval | None


NOTHING = Summed(0.0, 0.0, 0, Interval(0.0, 0.0, math.inf, 0), Interval(0.0, 0.0, math.inf, 0), None)


def summed(fleet: Fleet) -> Summed:
    """All clients together, from the windows of each.

    The 99th percentile lies between the lowest and the highest of any client in any window. Latencies include those of
    operations that began in that time and ended later: the slowest of a cluster that stalls at the end.
    """
    clients = together_in([steady(result.windows) for result in fleet.results.values()])
    if not all(clients):
        return NOTHING
    # Scrubs and compactions slow all clients at once, so their rates are added second by second.
    rate = interval([sum(window.rate for window in together) for together in zip(*clients, strict=False)])
    first_s, last_s = max(windows[0].began_s for windows in clients), min(windows[-1].ended_s for windows in clients)
    busy = [window for result in fleet.results.values() for window in result.windows if begun(window, first_s, last_s)]
    lowest, highest = min(window.p99_s for window in busy), max(window.p99_s for window in busy)
    return Summed(
        first_s,
        last_s,
        sum(window.operations for windows in clients for window in windows),
        rate,
        beside(rate, weighted([(window.mean_s, window.operations) for window in busy])),
        Interval(weighted([(window.p99_s, window.operations) for window in busy]), lowest, highest, len(busy)),
    )


def begun(window: Window, first_s: float, last_s: float) -> bool:
    """Whether operations of a window belong to the time from first_s to last_s, though they may have ended later."""
    return first_s <= window.middle_s and window.began_s - window.p99_s < last_s


def steady(known: Sequence[Window]) -> list[Window]:
    """The windows after the ramp, with those without operations, for a rate.

    The last one is left out, because the end cuts it short. What waited until then has taken up the windows before it.
    """
    if not known:
        return []
    every = filled_up(known, known[0].began_s, known[-1].ended_s, WINDOW_S)
    return list(every[round(len(every) * RAMP_SHARE) : -1])


def together_in(clients: Sequence[Sequence[Window]]) -> list[list[Window]]:
    """The windows of each client in which all worked; none if there are fewer than two, which have no spread."""
    if not all(clients):
        return [[] for _ in clients]
    first, last = max(windows[0].began_s for windows in clients), min(windows[-1].ended_s for windows in clients)
    common = [[window for window in windows if first <= window.middle_s <= last] for windows in clients]
    return [left if len(left) > 1 and any(window.operations for window in left) else [] for left in common]


def weighted(pairs: Sequence[tuple[float, int]]) -> float:
    """The mean of values by their numbers of operations; a value without operations does not count."""
    return sum(value * count for value, count in pairs if count) / sum(count for _, count in pairs)


def bias_of(
    stage: Stage, requirement: LoadRequirement, clients: Sequence[Client], fleet: Fleet, put_bytes: float
) -> Bias:
    """Record how busy the clients were; which way the figures may be off. put_bytes: of all objects."""
    hosts = {client.host.name: client.host for client in clients}
    spent = dict.fromkeys(hosts, 0.0)
    for name, client in zip(fleet.ahead_s, clients, strict=True):
        spent[client.host.name] += fleet.results[name].busy
    cpus = {name: float(host.run(["nproc"]).stdout) for name, host in hosts.items()}
    shares = [result.busy for result in fleet.results.values()]
    note_cpu(stage.recorder, "S3 clients", max(shares), max(spent[name] / cpus[name] for name in hosts))
    full = sum(share > FULL_CPU for share in shares)
    busy = f"{how_many(full, 'client')} of {len(clients)} used more than half a CPU" if full else ""
    reads = put_bytes if "get" in (requirement.op, *requirement.mix) else 0.0
    return Bias(at_limit(hosts, spent, cpus, busy), *from_memory(stage.cluster, reads, requirement.hit_ratio))


def sentences_of(clients: Sequence[Client], doors: Sequence[Entrance], pool: str) -> tuple[str, ...]:
    """What the figures rest on."""
    machines = len({client.host.name for client in clients})
    return (
        f"Measured with {how_many(len(clients), 'S3 client')} on {how_many(machines, 'machine')} through "
        f"{how_many(len(doors), 'endpoint')}; the objects are in the pool {pool!r}.",
        "Not measured: a cluster with so many objects that their metadata no longer fits the memory of its OSDs.",
    )
