"""The frame of every migration: data from before, load throughout, steps in the history, the same verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, own
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Phase, Recorder
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.telemetry.watch import watched
from cephlab.lab.workloads.fioverify import FioVerify, Witness
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.scrub import deep_scrub, rados_json
from cephlab.suites.limits import no_errors, wait_until_noticed
from cephlab.suites.migration import migrate, movement
from cephlab.suites.migration.movement import Movement, PlacedPg
from cephlab.suites.migration.paper import at_scale

STILL = "still"
"""The pool without writes: what is recovered in it was moved, not changed."""
LIVE = "live"
META = "live-meta"

PG_NUM = {Tier.QUICK: 8, Tier.FULL: 16}
OBJECTS = {Tier.QUICK: 128, Tier.FULL: 512}
OBJECT_BYTES = 64 << 10
PASSES = 3
"""Each object is written so often that no PG's log goes back to its beginning, as in any cluster with a past."""

SHORT_LOGS = (("osd_min_pg_log_entries", "2"), ("osd_max_pg_log_entries", "4"), ("osd_pg_log_trim_min", "1"))
"""A new store is filled by backfill only where the log does not go back to the PG's beginning; flags that stop backfill
stop nothing else. With Ceph's own lengths that takes hundreds of writes to each PG."""

PAUSE_S = 0.02
"""Between two operations of a worker: on two cores an unbounded load would leave nothing to the recovery."""
FIO_IOPS = 30

PEERING_S = 3.0
"""What peering and the first operations afterwards may take beyond noticing, before patience."""
TOLERANCE = 1.02
"""Of moved bytes: Ceph counts what it recovered of an object, and nothing else is written to the pool."""

FLAGS = ("nobackfill", "norebalance")

EXPECTED = {
    r"\[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|OSDMAP_FLAGS|TOO_FEW_OSDS)\)": (
        "Health tells of the OSDs that the scenario switched off or removed, and of the flags that it set."
    ),
    r"mgr get_metadata_python Requested missing service osd\.\d+$": (
        "The scenario took that OSD out of the cluster, and a module of the manager still asks for it."
    ),
    r"_scan_rollback_obs: queueing trans to clean up obsolete rollback objs$": (
        "Scrub of an erasure-coded PG removes objects kept for a rollback that its log no longer reaches."
    ),
    **DEAD_COUNT,
}


@dataclass
class Trial:
    """A migration under way."""

    stage: Stage
    kind: PoolKind
    still: Mirror
    load: RecordedLoad
    fio: FioVerify
    before: list[PlacedPg] = field(default_factory=list)
    recovered_before: int = 0
    legs: list[Movement] = field(default_factory=list)
    disturbed_s: float = 0.0
    moved_bytes: float = 0.0
    replaced_bytes: float = 0.0
    """Bytes of the pool without writes that the replaced nodes held."""

    @property
    def cluster(self) -> OwnCluster:
        return own(self.stage.cluster)

    @property
    def recorder(self) -> Recorder:
        return self.stage.recorder

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """One step of the procedure, with its time."""
        began = SYSTEM.monotonic()
        self.recorder.step(name, Phase.BEGAN)
        yield
        self.recorder.step(name, Phase.ENDED, round(SYSTEM.monotonic() - began, 3))

    def disturb(self, replaced: str | None = None) -> None:
        """From here on clients may have to wait, and the time to health counts. replaced: the node to replace."""
        if replaced is not None:
            numbers = set(migrate.osds_on(self.cluster, replaced))
            self.replaced_bytes += movement.held_bytes(
                self.before, {uuid for osd, uuid in osd_uuids(self.cluster).items() if osd in numbers}
            )
        self.disturbed_s = SYSTEM.monotonic()

    def mended(self, what: str) -> None:
        """Wait for health; note how long that took since the disturbance, and what had to move."""
        self.cluster.wait_healthy(HEALTHY_S)
        took = SYSTEM.monotonic() - self.disturbed_s
        self.recorder.figure(f"healthy_s[{what}]", round(took, 3), "s")
        after = placement(self.cluster, STILL, self.kind)
        self.legs.append(movement.least_movement(self.before, after))
        self.before = after


HEALTHY_S = 300.0
"""Of a lab's data, a few ten megabytes, before patience."""


@contextmanager
def trial(stage: Stage, kind: PoolKind, *, procedure: str | None = None) -> Iterator[Trial]:
    """Pools with data and load on them; afterwards everything is read back, compared, scrubbed and counted.

    procedure: which of the paper's it is, SWAP or REUSE of `paper.py`; None for what the paper did not do.
    """
    cluster, recorder = stage.cluster, stage.recorder
    with ExitStack() as made:
        for name in (STILL, LIVE):
            pg_num = PG_NUM[stage.tier]
            made.enter_context(pools.pool(cluster, name, kind, pg_num=pg_num, options=_options(kind)))
        if kind.erasure:
            made.enter_context(pools.pool(cluster, META, pools.REPLICATED, pg_num=4))
        running = _trial(stage, kind)
        running.load.prepare()
        running.fio.prepare()
        fill(running)
        running.before = placement(cluster, STILL, kind)
        running.recovered_before = recovered_bytes(cluster, STILL)
        with watched(cluster, recorder), running.load.running(), running.fio.running():
            yield running
        judge(running)
        if procedure is not None:
            note_scale(running, procedure)
        running.fio.clean()


def _options(kind: PoolKind) -> dict[str, str]:
    # The lab's default wants all copies but one; of two copies that is one, which Ceph's own default allows.
    return {"min_size": "1"} if kind.size == 2 else {}


def _trial(stage: Stage, kind: PoolKind) -> Trial:
    cluster = stage.cluster
    clients = client_nodes(cluster)
    load = Load(pool=LIVE, nodes=clients, seed=stage.rng.randrange(1 << 31), pause_s=PAUSE_S)
    witness = Witness(
        pool=META if kind.erasure else LIVE,
        node=clients[0],
        seed=stage.rng.randrange(1 << 31),
        rate_iops=FIO_IOPS,
        data_pool=LIVE if kind.erasure else None,
    )
    return Trial(
        stage=stage,
        kind=kind,
        still=Mirror(cluster.client, STILL),
        load=RecordedLoad(cluster, stage.recorder, load),
        fio=FioVerify(cluster, stage.recorder, witness),
    )


def client_nodes(cluster: Cluster) -> tuple[str, ...]:
    """The machines without daemons, the native one first."""
    bare = [node for node in cluster.spec.nodes if not (node.osds or node.mon or node.mgr)]
    return tuple(sorted((node.name for node in bare if node.name.startswith("c")), key=lambda name: name))


def fill(running: Trial) -> None:
    """What is there before anything happens."""
    stage = running.stage
    for _ in range(PASSES):
        for number in range(OBJECTS[stage.tier]):
            running.still.full(f"o{number}", stage.rng.randbytes(OBJECT_BYTES))
    running.cluster.settle()
    cut = sum(pg["log_start"] != "0'0" for pg in statistics(running.cluster, STILL))
    running.recorder.witness("PGs whose log does not go back to their beginning", got=cut, least=PG_NUM[stage.tier])


def judge(running: Trial) -> None:
    """Put everything into the history that the verdict rests on."""
    cluster, recorder = running.cluster, running.recorder
    cluster.wait_healthy(HEALTHY_S)
    running.load.verify()
    running.fio.verify()
    for node in client_nodes(cluster):
        running.still.verify(cluster.client_on(node), recorder, f"read on {node} after the migration")
    note_movement(running)
    scrubbed = [pg for pool in (STILL, LIVE) for pg in deep_scrub(cluster, pool)]
    recorder.witness("PGs deep-scrubbed", got=len(scrubbed), least=2 * PG_NUM[running.stage.tier])
    for pool in (STILL, LIVE):
        damaged = rados_json(cluster, "list-inconsistent-pg", pool)
        recorder.observe(f"PGs of {pool} whose copies differ", got=damaged, wanted=[], of=len(scrubbed))
    no_errors(recorder, "a migration is no reason to refuse anyone anything")
    wait_until_noticed(recorder, cluster, PEERING_S)


def note_movement(running: Trial) -> None:
    """Bytes moved in the pool without writes, against the least that the maps allow, leg by leg."""
    cluster, recorder = running.cluster, running.recorder
    cluster.settle()
    least = sum(leg.least_bytes for leg in running.legs)
    copies = sum(leg.copies for leg in running.legs)
    recovered = recovered_bytes(cluster, STILL) - running.recovered_before
    moved = running.moved_bytes = movement.moved_bytes(recovered, running.legs, running.kind.k)
    held = sum(pg.size_bytes for pg in running.before)
    recorder.record("movement", moved_bytes=moved, held_bytes=held, legs=[asdict(leg) for leg in running.legs])
    recorder.figure("moved_bytes", moved, "B")
    why = (
        f"{copies} copies or shards have new places by the maps before and after each leg, {least:.0f} bytes of "
        f"{held}; {TOLERANCE:g} times that"
    )
    recorder.limit("moved_bytes", least * TOLERANCE, "B", why)


def note_scale(running: Trial, procedure: str) -> None:
    """How long the paper's machines would copy for what was moved here, against what the paper says it took."""
    recorder = running.recorder
    recorder.witness("bytes that the replaced nodes held", got=running.replaced_bytes, least=OBJECT_BYTES)
    scaled = at_scale(procedure, running.moved_bytes, running.replaced_bytes)
    recorder.figure("paper_recovery_s", round(scaled.seconds, 1), "s")
    recorder.limit("paper_recovery_s", scaled.published_s, "s", scaled.why)


def osd_uuids(cluster: Cluster) -> dict[int, str]:
    """Number of each OSD -> uuid of its store."""
    return {int(osd["osd"]): str(osd["uuid"]) for osd in cluster.client.mon("osd dump")["osds"]}


def placement(cluster: Cluster, pool: str, kind: PoolKind) -> list[PlacedPg]:
    """Where each PG of a pool belongs by the OSD map, computed by osdmaptool, and how much data it holds."""
    client = cluster.client
    number = next(entry for entry in client.mon("osd dump")["pools"] if entry["pool_name"] == pool)["pool"]
    mapped = movement.parse_mappings(migrate.replay_map(cluster, client.command("mon", "osd getmap")))
    uuids = osd_uuids(cluster)
    sizes = {pg["pgid"]: int(pg["stat_sum"]["num_bytes"]) for pg in statistics(cluster, pool)}
    return [
        PlacedPg(pgid, movement.named(osds, uuids), sizes.get(pgid, 0), kind.k)
        for pgid, osds in sorted(mapped.items())
        if pgid.startswith(f"{number}.")
    ]


def recovered_bytes(cluster: Cluster, pool: str) -> int:
    """Bytes that Ceph says it recovered in a pool, ever."""
    return sum(int(pg["stat_sum"]["num_bytes_recovered"]) for pg in statistics(cluster, pool))


def statistics(cluster: Cluster, pool: str) -> Sequence[dict[str, Any]]:
    return list(cluster.client.mon("pg ls-by-pool", poolstr=pool)["pg_stats"])


@contextmanager
def without_backfill(running: Trial) -> Iterator[None]:
    """Backfill is disabled inside the block, as the paper has it, and enabled at its end."""
    with running.step("disable backfill"):
        for flag in FLAGS:
            running.cluster.client.mon("osd set", key=flag)
    try:
        yield
    finally:
        with running.step("enable backfill"):
            for flag in FLAGS:
                running.cluster.client.mon("osd unset", key=flag)
