"""What all resilience scenarios share: a recorded load during the failure, and the same checks afterwards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.faults import Fault, inflict
from cephlab.lab.faults.fault import EVENT
from cephlab.lab.faults.scrub import deep_scrub, rados_json
from cephlab.lab.history.history import Bound, Event
from cephlab.lab.history.operations import Act, operations_of
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.workloads.recorded import Kind, Load, RecordedLoad
from cephlab.suites.expected import DEAD_COUNT, HEALTH_TOLD, PEERS_MISSED
from cephlab.suites.limits import Copying, copying, no_errors

SMALL = (64 << 10,)
"""The small objects of the ten-billion-object paper."""
LARGE = (4 << 20,)
"""The paper's large objects are 128 MB, which RGW stores as RADOS objects of 4 MiB (rgw_obj_stripe_size)."""
MIXED = (4096, 64 << 10)

THREE = Topology(native=2, foreign=1, mons=3, lone_client=True, any_arch=True)
"""Three machines of both architectures, each with a daemon of every kind that matters, and one machine for clients,
which no fault stops."""

PG_NUM = {Tier.QUICK: 8, Tier.FULL: 16}
"""An OSD starts about one deep scrub a second, so eight more PGs make each scenario three seconds longer."""
KEYS = 24
WORKERS = 4
PAUSE_S = 0.02
"""Pause of a worker between two operations. Without it, the load would leave recovery no CPU on two cores."""
UNDER_WAY = 25
"""Operations before anything breaks: about one for each key, so that there is data to lose."""
UNDER_WAY_S = 120.0
LEAST_OPERATIONS = 5
"""Operations after UNDER_WAY. A load that has stopped for good does none; any other load does far more."""
EACH_GOES_ON = 2
"""Operations of a worker that is served: the one that it may have been waiting for, and a new one."""
RETURN_S = 180.0
"""A cluster must be healthy again by itself within this time, before patience and without the time that its disks and
network take to copy the data. Measured: 3 to 15 s."""

EXPECTED = {
    **HEALTH_TOLD,
    **DEAD_COUNT,
    **PEERS_MISSED,
    r"log_external_backlog rewinding .* mon rebuild": "A monitor whose store the scenario removed starts a new log.",
    r"get_health_metrics reporting \d+ slow ops": "Operations wait for a daemon that the scenario stopped.",
    r"^osd\.\d+ \d+ map (e\d+ )?wrongly marked me down|_committed_osd_maps": "The OSD was marked down and is back.",
    r"mgr handle_mgr_map I was active but no longer am$": "A manager that was paused for long was replaced. "
    "So is any in the first 30 s of its monitor's machine (_spare_managers in lab/cluster/deploy/packages.py).",
}

PAUSED = {
    r"heartbeat_map (is_healthy|reset_timeout) 'OSD::osd_op_tp thread \w+' had timed out after": (
        "The scenario paused the OSD in the middle of an operation."
    ),
}
"""Only for scenarios that pause OSDs: a hanging disk would cause the same message."""

DAMAGED = {
    r" INJECT EIO$": "BlueStore fails a read, because the scenario injected that error.",
    r"_verify_csum bad .* checksum": "BlueStore finds the block that the scenario damaged.",
}
"""Only for scenarios that damage copies on purpose: a lost write would cause the same message."""

scenario_under_load = partial(Scenario, check="recorded", topology=THREE, expects=EXPECTED)
"""Makes a scenario of this suite; arguments of the call override these."""


def new_load(stage: Stage, pool: str, *, sizes: tuple[int, ...] = MIXED, of: Kind = "objects") -> RecordedLoad:
    """A recorded load in a pool, run on the client machine and determined by the scenario's seed."""
    nodes, seed = (stage.cluster.client.host.name,), stage.rng.randrange(1 << 30)
    load = Load(pool, nodes, seed, kind=of, keys=KEYS, workers=WORKERS, sizes=sizes, pause_s=PAUSE_S)
    return RecordedLoad(stage.cluster, stage.recorder, load)


@dataclass(frozen=True)
class Data:
    """The data of a load: objects or blocks of some sizes, in a pool of some kind. pg_num: 0 for the tier's default."""

    kind: PoolKind = REPLICATED
    of: Kind = "objects"
    sizes: tuple[int, ...] = MIXED
    options: Mapping[str, str] = field(default_factory=dict)
    pg_num: int = 0

    def pool(self, stage: Stage) -> AbstractContextManager[str]:
        pg_num = self.pg_num or PG_NUM[stage.tier]
        return pools.pool(stage.cluster, "resilient", self.kind, pg_num=pg_num, options=self.options)

    def copied(self, stage: Stage) -> Copying:
        """The time that the run's hardware profile is allowed for copying the load's data again."""
        return copying(stage, KEYS * max(self.sizes), self.kind)


OBJECTS = Data()


@contextmanager
def loaded(stage: Stage, data: Data = OBJECTS, *, restarted: bool = False) -> Iterator[RecordedLoad]:
    """Run a load during the block; afterwards, wait until the cluster is healthy by itself, and read everything back.

    The block must heal what it broke. Clients may wait, but must see no error, and must continue once the cluster is
    healthy. restarted: new clients continue instead.
    """
    no_errors(stage.recorder, "a redundant pool keeps serving I/O, or lets its clients wait")
    with data.pool(stage) as pool:
        load = new_load(stage, pool, sizes=data.sizes, of=data.of)
        load.prepare()
        with load.running():
            before = under_way(load)
            yield load
            returned(stage, data.copied(stage))
            completed = load.completed() - before
            stage.recorder.witness("operations since the load was under way", got=completed, least=LEAST_OPERATIONS)
            if not restarted:
                goes_on(load)
        if restarted:
            with load.running():
                goes_on(load)
        load.verify()
        agreed(stage, pool)
        load.clean()


def under_way(load: RecordedLoad, least: int = UNDER_WAY) -> int:
    """Wait until the load has done at least `least` operations; returns how many it has done by then."""
    what, timeout_s = f"{least} operations of {load.load.name}", UNDER_WAY_S * load.cluster.patience
    return clock.wait(load.completed, lambda completed: completed >= least, what=what, timeout_s=timeout_s)


def again_and_again(
    stage: Stage,
    fault: Fault,
    count: int,
    data: Data,
    *,
    before_s: tuple[float, float],
    meanwhile: Callable[[], None],
) -> list[float]:
    """Inflict the fault at a random moment of a load, call `meanwhile`, heal, wait for health, read back; repeat.

    Returns the time to health of each round, in seconds.
    """
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "clients wait for a cluster that is down")
    bound = return_bound(cluster, data.copied(stage))
    times_s: list[float] = []
    with data.pool(stage) as pool:
        load = new_load(stage, pool, sizes=data.sizes, of=data.of)
        load.prepare()
        for number in range(count):
            with load.running():
                under_way(load)
                linger(stage.rng, *before_s)
                with inflict(fault, cluster, recorder):
                    meanwhile()
                times_s.append(healthy_s(cluster, bound))
                goes_on(load)
            load.verify()
            recorder.record("round", number=number, returned_s=times_s[-1])
        agreed(stage, pool)
        load.clean()
    struck = operations_met(recorder.events())
    recorder.witness("operations that met the fault, in the round with the fewest", got=min(struck, default=0), least=1)
    recorder.figure("longest_return_s", max(times_s), "s", bound)
    return times_s


def operations_met(events: Sequence[Event]) -> list[int]:
    """How many operations of clients were under way while a fault held, for each time that one did."""
    faults = [event for event in events if event.kind == EVENT]
    broken, healing = (
        [event.at_s for event in faults if event.data["phase"] == name] for name in ("broken", "healing")
    )
    load = [(op.began_s, op.ended_s) for op in operations_of(events) if op.act is not Act.FINAL]
    return [
        sum(began_s < until_s and (ended_s is None or ended_s > from_s) for began_s, ended_s in load)
        for from_s, until_s in zip(broken, healing, strict=True)
    ]


def goes_on(load: RecordedLoad, when: str = "after the cluster was healthy again") -> None:
    """Wait until the cluster serves every worker of a load. NotReached, which says when, if it does not."""
    before = load.by_worker()
    clock.wait(
        load.by_worker,
        lambda completed: all(now >= then + EACH_GOES_ON for now, then in zip(completed, before, strict=True)),
        what=f"{EACH_GOES_ON} operations of each worker of {load.load.name} {when}",
        timeout_s=UNDER_WAY_S * load.cluster.patience,
    )


def agreed(stage: Stage, pool: str) -> None:
    """Deep-scrub a pool that still has its objects, and observe that the copies of each are equal."""
    scrubbed = deep_scrub(stage.cluster, pool)
    stage.recorder.witness("objects that were scrubbed", got=len(stage.cluster.client.list_objects(pool)), least=1)
    damaged = rados_json(stage.cluster, "list-inconsistent-pg", pool)
    stage.recorder.observe("PGs whose copies differ afterwards", got=damaged, wanted=[], of=len(scrubbed))


def return_bound(cluster: Cluster, copied: Copying) -> Bound:
    """How long a cluster may take to be healthy: one part depends on settings and patience, the other on its disks."""
    why = f"{RETURN_S:g} s for daemons and peering, times a patience of {cluster.patience:g}; {copied.why}"
    most = RETURN_S * cluster.patience + copied.seconds
    return Bound(why, most=most, derivation=copied.derivation, basis=copied.basis)


def healthy_s(cluster: Cluster, bound: Bound) -> float:
    """Wait until the cluster is healthy by itself; returns how long that took, in seconds."""
    began = SYSTEM.monotonic()
    cluster.wait_healthy((bound.most or RETURN_S) / cluster.patience)
    return round(SYSTEM.monotonic() - began, 3)


def returned(stage: Stage, copied: Copying, metric: str = "time_to_healthy_s") -> None:
    """Wait until the cluster is healthy by itself, and record the time that this took, in seconds, with its limit."""
    bound = return_bound(stage.cluster, copied)
    stage.recorder.figure(metric, healthy_s(stage.cluster, bound), "s", bound)


def linger(rng: Random, least_s: float, most_s: float) -> None:
    """Sleep for a random time, so that faults hit operations in every phase."""
    SYSTEM.sleep(rng.uniform(least_s, most_s))
