"""The frame of every resilience scenario: a recorded load around what goes wrong, and the same proofs afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from lab import clock, pools
from lab.clock import SYSTEM, Deadline
from lab.cluster import Cluster
from lab.faults import Fault, inflict
from lab.faults.scrub import deep_scrub, rados_json
from lab.history import Recorder
from lab.pools import REPLICATED, PoolKind
from lab.scenario import Stage, Topology
from lab.workloads.recorded import Kind, Load, RecordedLoad
from suites.expected import DEAD_COUNT, HEALTH_TOLD, PEERS_MISSED
from suites.limits import no_errors

SMALL = (64 << 10,)
"""The small objects of the ten-billion-object paper."""
LARGE = (4 << 20,)
"""Its large ones are 128 MB, which RGW stores as RADOS objects of 4 MiB (rgw_obj_stripe_size)."""
MIXED = (4096, 64 << 10)

THREE = Topology(native=3, foreign=0, mons=3, lone_client=True)
"""Three machines that each have a daemon of every kind that matters, and one for clients, which outlives them."""

PG_NUM = 16
KEYS = 24
WORKERS = 4
PAUSE_S = 0.02
"""Between two operations of a worker: on two cores an unbounded load would leave nothing to recovery."""
UNDER_WAY = 25
"""Operations that are done before anything breaks: about one for each key, so that there is something to lose."""
UNDER_WAY_S = 120.0
LEAST_OPERATIONS = 5
"""Operations from then on: a load that came to a stop and never went on would do none, any other far more."""
RETURN_S = 180.0
"""Within this a cluster that was hit is healthy again by itself; measured: 3 to 15 s."""

EXPECTED = {
    **HEALTH_TOLD,
    **DEAD_COUNT,
    **PEERS_MISSED,
    r"log_external_backlog rewinding .* mon rebuild": "A monitor whose store the scenario removed begins its log anew.",
    r"get_health_metrics reporting \d+ slow ops": "Operations wait for what the scenario took away.",
    r"^osd\.\d+ \d+ map (e\d+ )?wrongly marked me down|_committed_osd_maps": "The OSD was called down and is back.",
    r"mgr handle_mgr_map I was active but no longer am$": "A manager that was paused for long finds itself replaced; "
    "so does any in the first 30 s of its monitor's machine (await_age in lab/deploy/packages.py).",
}

DAMAGED = {
    r" INJECT EIO$": "BlueStore says that it makes a read fail, as the scenario told it to.",
    r"_verify_csum bad .* checksum": "BlueStore finds the block that the scenario damaged.",
}
"""For scenarios that damage copies on purpose, and no others: a bad block is also what a lost write looks like."""


def new_load(
    stage: Stage, pool: str, *, sizes: tuple[int, ...] = MIXED, of: Kind = "objects", name: str = "load"
) -> RecordedLoad:
    """A recorded load in a pool, from the machine for clients, that follows from the scenario's seed."""
    client = stage.cluster.client.host.name
    load = Load(
        pool=pool,
        nodes=(client,),
        seed=stage.rng.randrange(1 << 30),
        name=name,
        kind=of,
        keys=KEYS,
        workers=WORKERS,
        sizes=sizes,
        pause_s=PAUSE_S,
    )
    return RecordedLoad(stage.cluster, stage.recorder, load)


@contextmanager
def loaded(
    stage: Stage,
    kind: PoolKind = REPLICATED,
    *,
    sizes: tuple[int, ...] = MIXED,
    of: Kind = "objects",
    options: dict[str, str] | None = None,
    pg_num: int = PG_NUM,
    restarted: bool = False,
) -> Iterator[RecordedLoad]:
    """A load runs inside the block; afterwards the cluster returns to health by itself and everything is read back.

    What went wrong inside must be healed by the end of the block. Clients are to see no error, however long they wait,
    and go on once the cluster is healthy: the same ones, or, where that is not to be had, restarted ones.
    """
    no_errors(stage.recorder, "a redundant pool serves on, or lets its clients wait")
    with pools.pool(stage.cluster, "resilient", kind, pg_num=pg_num, options=options) as pool:
        load = new_load(stage, pool, sizes=sizes, of=of)
        load.prepare()
        with load.running():
            before = under_way(load)
            yield load
            returned(stage.cluster, stage.recorder)
            if not restarted:
                goes_on(load)
            got = load.completed() - before
            stage.recorder.witness("operations since the load was under way", got=got, least=LEAST_OPERATIONS)
        if restarted:
            with load.running():
                goes_on(load)
        load.verify()
        load.clean()
        agreed(stage, pool)


def under_way(load: RecordedLoad) -> int:
    """Wait until the load has done enough to be called one; how many operations that were."""
    return clock.wait(
        load.completed,
        lambda done: done >= UNDER_WAY,
        what=f"{UNDER_WAY} operations of {load.load.name}",
        timeout_s=UNDER_WAY_S * load.cluster.patience,
    )


def again_and_again(
    stage: Stage,
    fault: Fault,
    count: int,
    *,
    before_s: tuple[float, float],
    meanwhile: Callable[[], None],
    kind: PoolKind = REPLICATED,
    of: Kind = "objects",
) -> list[float]:
    """Again and again: load, the whole cluster struck at a random moment, `meanwhile`, health, everything read back.

    Returns how long the cluster took to be healthy again each time, in seconds.
    """
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "clients wait for a cluster that is away")
    recorder.record(
        "limit", metric="longest_return_s", high=RETURN_S * cluster.patience, unit="s", why="it returns by itself"
    )
    took: list[float] = []
    with pools.pool(cluster, "resilient", kind, pg_num=PG_NUM) as pool:
        load = new_load(stage, pool, of=of)
        load.prepare()
        done = 0
        for number in range(count):
            with load.running():
                under_way(load)
                linger(stage.rng, *before_s)
                with inflict(fault, cluster, recorder):
                    meanwhile()
                began = SYSTEM.monotonic()
                cluster.wait_healthy(RETURN_S)
                took.append(round(SYSTEM.monotonic() - began, 3))
                goes_on(load)
                done += load.completed()
            load.verify()
            recorder.record("round", number=number, returned_s=took[-1])
        load.clean()
        agreed(stage, pool)
    recorder.witness("operations of the load", got=done, least=UNDER_WAY * len(took))
    recorder.witness("rounds", got=len(took), least=count)
    recorder.record("figure", metric="longest_return_s", value=max(took), unit="s")
    return took


def goes_on(load: RecordedLoad) -> None:
    """Clients are served again by a cluster that calls itself healthy; NotReached where they are not."""
    before = load.completed()
    clock.wait(
        load.completed,
        lambda done: done >= before + LEAST_OPERATIONS,
        what=f"{LEAST_OPERATIONS} operations of {load.load.name} after the cluster was healthy again",
        timeout_s=UNDER_WAY_S * load.cluster.patience,
    )


def agreed(stage: Stage, pool: str) -> None:
    """Deep-scrub a pool: its copies agree with each other and with their checksums."""
    deep_scrub(stage.cluster, pool)
    damaged = rados_json(stage.cluster, "list-inconsistent-pg", pool)
    stage.recorder.observe("PGs whose copies differ afterwards", got=damaged, wanted=[])


def returned(cluster: Cluster, recorder: Recorder, metric: str = "time_to_healthy_s") -> float:
    """Wait until the cluster is healthy by itself, and write down how long it took, in seconds."""
    began = SYSTEM.monotonic()
    cluster.wait_healthy(RETURN_S)
    took = round(SYSTEM.monotonic() - began, 3)
    recorder.record("figure", metric=metric, value=took, unit="s")
    return took


def linger(rng: Random, least_s: float, most_s: float) -> None:
    """Let a random time pass, so that faults meet operations in every phase."""
    seconds = rng.uniform(least_s, most_s)
    Deadline.after(seconds).pause(seconds)
