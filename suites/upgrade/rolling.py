"""One daemon after the other to a newer release, under load, on both architectures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.status import Status
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED
from cephlab.lab.faults.scrub import deep_scrub, rados_json
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.expected import DEAD_COUNT, HEALTH_TOLD, PEERS_MISSED
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.limits import no_errors, wait_until_noticed
from cephlab.suites.migration import movement
from cephlab.suites.migration.migrate import replay_map
from cephlab.suites.upgrade import upgrade

PG_NUM = 8
OBJECTS = 12
OBJECT_BYTES = 200_000
PAUSE_S = 0.02
"""Between two operations of a worker: on two cores an unbounded load would leave nothing to the upgrade."""
LEAST_A_MIX = 5
"""Operations that clients must have got done before the next daemon is touched: the mix of versions serves."""
SERVED_S = 60.0
PEERING_S = 10.0
"""What peering and the first operations afterwards may take once a stopped OSD is known as down, before patience."""

HEALTHY_S = 120.0
OLD_KEYS = "AUTH_INSECURE_"
"""Prefix of the health codes about the type of keys, and about settings that still allow it."""

POOLS = {"copies": REPLICATED, "shards": EC_2_1}
LIVE = "live"
"""The pool that clients work in all the time; nobody writes to the others during the upgrade."""

EXPECTED = {
    **HEALTH_TOLD,
    **DEAD_COUNT,
    **PEERS_MISSED,
    r"mgr\.server reply reply \((11|16)\)": "The manager logs its answer as long as an OSD may not be stopped yet.",
    r"mgr\[py\] Module \S+ has missing NOTIFY_TYPES member": "A manager starts; its modules are loaded all the same.",
    r"mgr\[py\] Loading module \S+ in main interpreter": "Tentacle's manager tells so of each module, at error level.",
    r"read_superblock omap replica is missing": "Older OSDs keep one copy of the superblock; newer ones add a second.",
}


def rolling(stage: Stage, through: Sequence[str]) -> None:
    """Fill pools, upgrade under load to each release in turn, and let the newest one's clients read everything."""
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "an upgrade is no reason to refuse anybody")
    wait_until_noticed(recorder, cluster, PEERING_S)
    for name, kind in {**POOLS, LIVE: REPLICATED}.items():  # they go with the cluster, which is not used again
        pools.create(cluster, name, kind, pg_num=PG_NUM)
    mirrors = [filled(stage, pool, number) for number, pool in enumerate(POOLS)]
    load = new_load(stage)
    load.prepare()
    older, targets, old_map = {}, dict(cluster.hosts), b""
    with load.running():
        for release in through:
            older, old_map = targets, cluster.client.command("mon", "osd getmap")
            targets = one_release(stage, release, load)
    load.verify()
    put_up_with_old_keys(stage)
    cluster.wait_healthy()
    read_back(stage, targets, mirrors)
    same_placement(stage, old_map, older, targets)
    scrubbed = [pg for pool in (*POOLS, LIVE) for pg in deep_scrub(cluster, pool)]
    recorder.witness("PGs deep-scrubbed", got=len(scrubbed), least=PG_NUM * (len(POOLS) + 1))
    for pool in (*POOLS, LIVE):
        damaged = rados_json(cluster, "list-inconsistent-pg", pool)
        recorder.observe(f"PGs of {pool} whose copies differ", got=damaged, wanted=[], of=len(scrubbed))


def filled(stage: Stage, pool: str, number: int) -> Mirror:
    """Objects of the oldest release: content, attributes and, where the pool takes them, omap and a snapshot."""
    mirror = Mirror(stage.cluster.client, pool)
    for index in range(OBJECTS):
        name = f"o{number}-{index}"
        mirror.full(name, stage.rng.randbytes(OBJECT_BYTES))
        mirror.xattr(name, "kind", pool.encode())
        if POOLS[pool] is REPLICATED:
            mirror.omap(name, {"key": stage.rng.randbytes(64)})
    mirror.snap("before")
    for index in range(0, OBJECTS, 2):
        mirror.write(f"o{number}-{index}", stage.rng.randbytes(5000), stage.rng.randrange(OBJECT_BYTES))
    return mirror


def new_load(stage: Stage) -> RecordedLoad:
    """Clients of the oldest release, one of each architecture, as the documentation upgrades clients last."""
    bare = [node.name for node in stage.cluster.spec.nodes if not (node.osds or node.mon or node.mgr)]
    load = Load(pool=LIVE, nodes=tuple(bare), seed=stage.rng.randrange(1 << 30), pause_s=PAUSE_S)
    return RecordedLoad(stage.cluster, stage.recorder, load)


def one_release(stage: Stage, release: str, load: RecordedLoad) -> dict[str, Host]:
    """Upgrade every daemon to one release; the nodes with that release's programs."""
    cluster, recorder = stage.cluster, stage.recorder
    images = images_of(cluster, release)

    def after(step: upgrade.Step) -> None:
        arch = cluster.hosts[step.node].arch
        recorder.step(f"{step.daemon} ({arch}) to {release}")
        recorder.record("mix", mix=dict(step.mix))
        before = load.completed()
        cluster.wait(
            lambda _status: load.completed() >= before + LEAST_A_MIX,
            what=f"clients served by {dict(step.mix)}",
            timeout_s=SERVED_S,
        )

    upgrade.upgrade(cluster, release, images, after)
    recorder.observe(
        f"daemons after the upgrade to {release}", got=upgrade.mix(cluster), wanted={release: len(cluster.daemons)}
    )
    required = cluster.client.mon("osd dump")["require_osd_release"]
    recorder.observe("release that OSDs must have", got=required, wanted=release)
    return upgrade.hosts_of(cluster, images)


def images_of(cluster: Cluster, release: str) -> Images:
    """The images of a release, built where they are missing."""
    store = ImageStore(cluster.run.home)
    return {arch: store.get(release, arch) for arch in cluster.spec.archs}


def put_up_with_old_keys(stage: Stage) -> None:
    """Mute health checks about the keys of an older release: their type changes only when they are rotated.

    Ceph 20.2.4 finds the keys of every earlier release insecure (CVE-2025-30156); clients of those, as the load's are
    here, know no others. Any other health check is still waited for.
    """
    cluster = stage.cluster
    status = cluster.wait(
        lambda status: status.all_up and status.clean and not others(status),
        what="no health check but those of the keys' type",
        timeout_s=HEALTHY_S,
    )
    muted = [check.code for check in status.checks]
    for code in muted:
        cluster.client.mon("health mute", code=code, sticky=True)
    stage.recorder.record("muted", what="health checks of keys that the older release made", codes=muted)


def others(status: Status) -> list[str]:
    """Codes of health checks that are not about the type of keys."""
    return [check.code for check in status.checks if not check.code.startswith(OLD_KEYS)]


def read_back(stage: Stage, targets: Mapping[str, Host], mirrors: Sequence[Mirror]) -> None:
    """Clients of the newest release on both architectures read what the oldest wrote, from primaries of both."""
    cluster = stage.cluster
    with ExitStack() as clients:
        readers = {}
        for arch in cluster.spec.archs:
            host = target_of(targets, arch)
            options = conf.image_options(host)
            client = RadosClient(host, conf.conf_path(host), patience=cluster.patience, options=options)
            readers[arch] = clients.enter_context(closing(client))
        for primary in cluster.spec.archs:
            with pools.led_by(cluster, primary):
                for arch, reader in readers.items():
                    for mirror in mirrors:
                        when = f"in {mirror.pool}, read on {arch}, primary on {primary}"
                        mirror.verify(reader, stage.recorder, when)


def same_placement(stage: Stage, old_map: bytes, older: Mapping[str, Host], newer: Mapping[str, Host]) -> None:
    """The last map of the older release means the same to both releases' tools, on both architectures.

    The newer tools also place the current map as the cluster does. Older tools need not read it: those of pacific and
    reef cannot read a map of tentacle.
    """
    cluster, archs = stage.cluster, stage.cluster.spec.archs
    sides = {f"older on {arch}": target_of(older, arch) for arch in archs}
    sides |= {f"newer on {arch}": target_of(newer, arch) for arch in archs}
    mappings = {side: movement.parse_mappings(replay_map(cluster, old_map, host)) for side, host in sides.items()}
    first = next(iter(mappings.values()))
    for side, mapping in mappings.items():
        wrong = sorted(pgid for pgid in first.keys() | mapping.keys() if mapping.get(pgid) != first.get(pgid))
        what = f"PGs of the older map that {side} places elsewhere"
        stage.recorder.observe(what, got=wrong, wanted=[], of=len(first))
    stage.recorder.witness("PGs in the older map", got=len(first), least=PG_NUM * len(POOLS))
    real = {pg.pgid: pg.acting for pool in POOLS for pg in pools.pgs_of(cluster, pool)}
    now = cluster.client.command("mon", "osd getmap")
    for arch in archs:
        mapping = movement.parse_mappings(replay_map(cluster, now, target_of(newer, arch)))
        wrong = sorted(pgid for pgid, acting in real.items() if mapping.get(pgid) != acting)
        what = f"PGs that newer on {arch} places elsewhere than the cluster"
        stage.recorder.observe(what, got=wrong, wanted=[], of=len(real))


def target_of(targets: Mapping[str, Host], arch: Arch) -> Host:
    for host in targets.values():
        if host.arch is arch:
            return host
    raise LabBroken(f"no upgraded node is of {arch}", ", ".join(targets))


def scenario(first: str, through: Sequence[str], tier: Tier, *, mixed: bool = True) -> Scenario:
    path = " -> ".join((first, *through))
    if mixed:
        name, nodes, topology = "rolling", "A mixed cluster", Topology(mons=3, clients=True, release=first)
    else:
        name, nodes = "rolling-native", "A cluster of this machine's architecture"
        topology = Topology(native=3, foreign=0, mons=3, lone_client=True, release=first)
    return Scenario(
        name=f"upgrade.{name}[from={first},to={through[-1]}]",
        goal=f"{nodes} goes {path}: no error, no lost write, and the newest reads what the oldest wrote.",
        method="Restarts every daemon in the documented order under load, and reads back on each architecture.",
        run=partial(rolling, through=through),
        check="recorded",
        tier=tier,
        topology=topology,
        needs=frozenset({Capability.SECOND_IMAGE}),
        spoils=True,
        expects=EXPECTED,
    )


SCENARIOS: tuple[Scenario, ...] = (
    scenario("pacific", ("reef",), Tier.QUICK),
    scenario("pacific", ("reef",), Tier.QUICK, mixed=False),
    scenario("pacific", ("reef", "tentacle"), Tier.FULL),
)
