"""The frame of every migration: writes data before, loads the cluster throughout, records steps, judges the result."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import try_all
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, own
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.cluster.watch import watched
from cephlab.lab.history.history import Basis, Bound, Phase, Recorder
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Node
from cephlab.lab.workloads.fioverify import FioVerify, Witness
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.scrub import observe_copies_in
from cephlab.suites.limits import RECORDED, copying, no_errors, wait_until_noticed
from cephlab.suites.machines import hardware_of
from cephlab.suites.migration import migrate, movement
from cephlab.suites.migration.budget import TOLERANCE, at_scale, by_profile
from cephlab.suites.migration.movement import Movement, PlacedPg
from cephlab.tuning.profilefile import find_profile

STILL = "still"
"""The pool without writes during the migration: everything that recovers in it was moved, not changed."""
LIVE = "live"
META = "live-meta"

PG_NUM = {Tier.QUICK: 8, Tier.FULL: 16}
OBJECTS = {Tier.QUICK: 128, Tier.FULL: 512}
OBJECT_BYTES = 64 << 10
PASSES = 3
"""Writes of each object. With this many no PG's log reaches back to its beginning, as in any used cluster."""

PAUSE_S = 0.02
"""Pause between two operations of a worker. Without it the load would leave recovery no time on two cores."""
FIO_IOPS = 30

PEERING_S = 3.0
"""Time for peering and the first operations after it, once the loss is noticed, before patience."""
HEALTHY_S = 300.0
"""Time to recover a lab's data, some tens of megabytes, before patience."""

SHOWN = 0.25
"""Least share of the minimum that Ceph's counter must show: a changed primary loses part of it. Measured: 61 to 100 %
over whole procedures."""

FLAGS = ("nobackfill", "norebalance")

EXPECTED = {
    r"\[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|OSDMAP_FLAGS|TOO_FEW_OSDS)\)": (
        "Health reports the OSDs that the scenario switched off or removed, or the flags that it set."
    ),
    r"mgr get_metadata_python Requested missing service osd\.\d+$": (
        "The scenario removed that OSD, and a module of the manager still asks for it."
    ),
    r"_scan_rollback_obs: queueing trans to clean up obsolete rollback objs$": (
        "Scrub of an erasure-coded PG removes rollback objects that its log no longer reaches."
    ),
    **DEAD_COUNT,
}


@dataclass(kw_only=True)
class Migration:
    """A running migration of the pool STILL."""

    stage: Stage
    kind: PoolKind
    still: Mirror
    before: list[PlacedPg] = field(default_factory=list)
    legs: list[Movement] = field(default_factory=list)
    disturbed_s: float = 0.0
    replaced_bytes: float = 0.0
    """Bytes of the pool STILL that the replaced nodes held."""

    @property
    def cluster(self) -> OwnCluster:
        return own(self.stage.cluster)

    @property
    def recorder(self) -> Recorder:
        return self.stage.recorder

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record one step of the procedure and its time."""
        began = SYSTEM.monotonic()
        self.recorder.step(name, Phase.BEGAN)
        yield
        self.recorder.step(name, Phase.ENDED, round(SYSTEM.monotonic() - began, 3))

    def disturb(self, replaced: str | None = None) -> None:
        """Start the clock for the time to health. From now on clients may wait. replaced: the node to replace."""
        if replaced is not None:
            uuids = osd_uuids(self.cluster)
            stores = {uuids[osd] for osd in migrate.osds_on(self.cluster, replaced)}
            self.replaced_bytes += movement.held_bytes(self.before, stores)
        self.disturbed_s = SYSTEM.monotonic()

    def recovered(self, what: str) -> None:
        """Wait for health. Record the time since the disturbance, and the data that had to move."""
        self.cluster.wait_healthy(HEALTHY_S)
        took_s = SYSTEM.monotonic() - self.disturbed_s
        self.recorder.figure(f"healthy_s[{what}]", round(took_s, 3), "s", RECORDED)
        after = placement(self.cluster, STILL, self.kind)
        self.legs.append(movement.least_movement(self.before, after))
        self.before = after


@dataclass(kw_only=True)
class Trial(Migration):
    """A running migration under load."""

    load: RecordedLoad
    fio: FioVerify
    recovered_before: int = 0
    moved_bytes: float = 0.0


@contextmanager
def trial(stage: Stage, kind: PoolKind, *, procedure: str | None = None) -> Iterator[Trial]:
    """Make pools, fill them and load them. Afterwards read everything back, compare, scrub and count what moved.

    procedure: of the paper, SWAP or REUSE; None for one that the paper did not try.
    """
    cluster, recorder = stage.cluster, stage.recorder
    with ExitStack() as stack:
        for name in (STILL, LIVE):
            stack.enter_context(pools.pool(cluster, name, kind, pg_num=PG_NUM[stage.tier], options=options_of(kind)))
        if kind.erasure:
            stack.enter_context(pools.pool(cluster, META, pools.REPLICATED, pg_num=4))
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


def options_of(kind: PoolKind) -> dict[str, str]:
    """Options of a pool. The lab sets min_size for three copies. For two, one must be enough, as in Ceph's default."""
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
    """Names of the machines without daemons, the native one first."""
    bare = [node.name for node in cluster.spec.nodes if not (node.osds or node.mon or node.mgr)]
    return tuple(sorted(name for name in bare if name.startswith("c")))


def fill(running: Migration) -> None:
    """Write the objects of STILL before the migration starts."""
    stage = running.stage
    for _ in range(PASSES):
        for number in range(OBJECTS[stage.tier]):
            running.still.full(f"o{number}", stage.rng.randbytes(OBJECT_BYTES))
    running.cluster.settle()
    cut = sum(pg["log_start"] != "0'0" for pg in statistics(running.cluster, STILL))
    running.recorder.witness("PGs whose log does not reach back to their beginning", got=cut, least=PG_NUM[stage.tier])


def judge(running: Trial) -> None:
    """Record everything that the verdict needs."""
    cluster, recorder = running.cluster, running.recorder
    cluster.wait_healthy(HEALTHY_S)
    running.load.verify()
    running.fio.verify()
    for node in client_nodes(cluster):
        running.still.verify(cluster.client_on(node), recorder, f"read on {node} after the migration")
    note_movement(running)
    observe_copies_in(running.stage, (STILL, LIVE), least=PG_NUM[running.stage.tier])
    no_errors(recorder, "clients must see no errors during a migration")
    wait_until_noticed(running.stage, PEERING_S, copying(running.stage, running.load.load.most_bytes, running.kind))


def note_movement(running: Trial) -> None:
    """Compare the bytes moved in STILL with the least that the maps of all legs allow."""
    cluster, recorder = running.cluster, running.recorder
    cluster.settle()
    least = sum(leg.least_bytes for leg in running.legs)
    copies = sum(leg.copies for leg in running.legs)
    recovered = recovered_bytes(cluster, STILL) - running.recovered_before
    moved = running.moved_bytes = movement.moved_bytes(recovered, running.legs, running.kind.k)
    stored_bytes = sum(pg.size_bytes for pg in running.before)
    recorder.record("movement", moved_bytes=moved, held_bytes=stored_bytes, legs=[asdict(leg) for leg in running.legs])
    why = (
        f"{TOLERANCE:g} times {least:.0f} of {stored_bytes} bytes: by the maps before and after each leg, "
        f"{copies} copies or shards move to new places"
    )
    recorder.figure("moved_bytes", moved, "B", Bound(why, most=least * TOLERANCE, basis=Basis.CORRECTNESS))
    # A counter that shows nothing would keep the limit whatever moved. If nothing had to move, it must at least show
    # what the returned OSDs missed of the load.
    if least:
        recorder.witness("bytes that the counter shows of the moved", got=moved, least=least * SHOWN)
    else:
        recorder.witness("bytes that the counter shows of the load", got=recovered_bytes(cluster, LIVE), least=1)


def note_scale(running: Trial, procedure: str) -> None:
    """Scale the moved bytes to the paper's machines, whose time is the limit, and to machines of the run's profile."""
    recorder = running.recorder
    recorder.witness("bytes that the replaced nodes held", got=running.replaced_bytes, least=OBJECT_BYTES)
    if not running.replaced_bytes:
        return  # no share of nothing; the witness makes the run inconclusive
    paper = at_scale(procedure, running.moved_bytes, running.replaced_bytes)
    recorder.figure("paper_recovery_s", round(paper.seconds, 1), "s", paper.bound)
    hardware = hardware_of(running.stage)
    if hardware is None:
        return
    own = running.stage.cluster.run.home.profiles
    moved_share = running.moved_bytes / running.replaced_bytes
    scaled = by_profile(hardware, moved_share, lambda name: find_profile(name, own))
    metric, interval = f"recovery_s[{hardware.profile.name}]", (round(scaled.low, 1), round(scaled.high, 1))
    recorder.figure(metric, round(scaled.seconds, 1), "s", scaled.bound, interval=interval)


def osd_uuids(cluster: Cluster) -> dict[int, str]:
    """Number of each OSD -> uuid of its store."""
    return {int(osd["osd"]): str(osd["uuid"]) for osd in cluster.client.mon("osd dump")["osds"]}


def placement(cluster: Cluster, pool: str, kind: PoolKind) -> list[PlacedPg]:
    """The placement of each PG of a pool by osdmaptool and the OSD map, and how much data the PG holds."""
    client = cluster.client
    number = pools.by_name(cluster)[pool]["pool"]
    mapped = movement.parse_mappings(migrate.replay_map(cluster, client.command("mon", "osd getmap")))
    uuids = osd_uuids(cluster)
    sizes = {pg["pgid"]: int(pg["stat_sum"]["num_bytes"]) for pg in statistics(cluster, pool)}
    return [
        PlacedPg(pgid, movement.named(osds, uuids), sizes.get(pgid, 0), kind.k)
        for pgid, osds in sorted(mapped.items())
        if pgid.startswith(f"{number}.")
    ]


def recovered_bytes(cluster: Cluster, pool: str) -> int:
    """Bytes that Ceph recovered in a pool since the pool was made, by its own count."""
    return sum(int(pg["stat_sum"]["num_bytes_recovered"]) for pg in statistics(cluster, pool))


def statistics(cluster: Cluster, pool: str) -> Sequence[dict[str, Any]]:
    return list(cluster.client.mon("pg ls-by-pool", poolstr=pool)["pg_stats"])


@contextmanager
def without_backfill(running: Migration) -> Iterator[None]:
    """Disable backfill inside the block, as the paper does, and enable it at the end."""
    with running.step("disable backfill"):
        for flag in FLAGS:
            running.cluster.client.mon("osd set", key=flag)
    try:
        yield
    finally:
        with running.step("enable backfill"):
            try_all(partial(running.cluster.client.mon, "osd unset", key=flag) for flag in FLAGS)


Replacement = Callable[[Trial, Node, str], Node]
"""Replaces a node by a machine of the other architecture with a given name, and returns that machine."""


def replace_last(stage: Stage, kind: PoolKind, legs: int, procedure: str, replacement: Replacement) -> None:
    """Replace the last node by a machine of the other architecture. A second leg replaces that machine again."""
    node = migrate.osd_nodes(stage.cluster)[-1]
    with trial(stage, kind, procedure=procedure) as running:
        for leg in range(legs):
            node = replacement(running, node, f"m{leg}")


def replace_all(stage: Stage, kind: PoolKind, procedure: str, replacement: Replacement) -> None:
    """Replace every node, one by one, until the cluster has the other architecture; then replace all of them back."""
    cluster = stage.cluster
    with trial(stage, kind, procedure=procedure) as running:
        for leg, arch in (("there", host_arch().other), ("back", host_arch())):
            for node in migrate.osd_nodes(cluster):
                replacement(running, node, f"{leg}{node.name[-1]}")
            for daemon in ("mon", "mgr", "osd"):
                archs = archs_of(cluster, daemon)
                stage.recorder.observe(f"architectures of every {daemon}, {leg}", got=archs, wanted=[arch.value])


def archs_of(cluster: Cluster, kind: str) -> list[str]:
    return sorted({str(entry["arch"]) for entry in cluster.client.mon(f"{kind} metadata")})
