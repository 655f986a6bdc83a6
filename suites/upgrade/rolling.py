"""Upgrades one daemon after the other under load, on both architectures, in the order that Ceph documents."""

import errno
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from operator import not_
from typing import Any
from urllib.parse import urlsplit

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import conf
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.status import Status
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster, insist
from cephlab.lab.cluster.own import own
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.base import HoldsImages, Images
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import active
from cephlab.lab.services.prometheus import PROMETHEUS
from cephlab.lab.services.service import silent_http
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.expected import DEAD_COUNT, HEALTH_TOLD, PEERS_MISSED
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.scrub import observe_copies_in
from cephlab.suites.limits import copying, no_errors, note_killed, wait_until_noticed
from cephlab.suites.migration import movement
from cephlab.suites.migration.migrate import replay_map
from cephlab.suites.migration.trial import client_nodes

ORDER = ("mon", "mgr", "osd", "mds")
"""From https://docs.ceph.com/en/reef/releases/reef/#upgrading-non-cephadm-clusters. Gateways would come later."""

_RESTART_S = 120.0

_MAY_NOT_STOP = (errno.EBUSY, errno.EAGAIN)
"""Errors of `osd ok-to-stop`: data would become unavailable, or the manager has no statistics yet."""


@dataclass(frozen=True)
class Step:
    """One daemon after its restart. mix: release -> daemons that run it; killed: it did not stop by itself."""

    daemon: str
    node: str
    mix: Mapping[str, int]
    killed: bool = False


def hosts_of(cluster: Cluster, images: Images) -> dict[str, Host]:
    """The cluster's nodes by name, with the programs of other images. LabBroken if the provider cannot do that."""
    lab = own(cluster).lab
    if not isinstance(lab, HoldsImages):
        what = f"the {cluster.provider_name} provider has no {Capability.SECOND_IMAGE}"
        raise LabBroken(what, "its nodes run the programs of one image", "use --lab local or container")
    return {name: lab.with_image(name, images[host.arch]) for name, host in cluster.hosts.items()}


def upgrade_daemon(cluster: Cluster, name: str, target: Host) -> Step:
    """Restart one daemon with the programs of another image, or start one that is stopped; wait until it serves.

    An OSD stops only when the cluster reports that all data stays available. NotReached if it never does.
    """
    old = cluster.daemon(name)
    if old.kind == "osd":
        ask = partial(cluster.client.command, "mon", "osd ok-to-stop", ids=[old.id])
        insist(cluster, ask, _MAY_NOT_STOP, what=f"permission to stop {name}", timeout_s=_RESTART_S)
    new = own(cluster).deployer.daemon(target, name, disks=old.disks)
    # The node's ceph.conf names the plugins of its first image. Options on the command line override it.
    options = [f"--{key}={value}" for key, value in conf.image_options(target).items()]
    killed = not cluster.stop_or_kill(name) if old.alive() else False
    own(cluster).deployment.daemons[name] = replace(new, argv=(*new.argv, *options))
    cluster.start(name)
    wanted = version_of(target, old.kind)
    clock.wait(
        lambda: _serving(cluster, name),
        lambda version: version == wanted,
        what=f"{name} serving as {wanted}",
        timeout_s=_RESTART_S * cluster.patience,
    )
    if old.kind == "osd":
        pools.wait_clean(cluster)
    return Step(name, target.name, mix(cluster), killed)


def _serving(cluster: Cluster, name: str) -> str:
    """The version of a daemon that serves again, as the cluster reports it, or else what is missing."""
    cluster.check_daemons()
    status = cluster.status()
    kind, _, ident = name.partition(".")
    if kind == "mon" and len(status.quorum) < status.mons:
        return f"monitors in quorum: {', '.join(status.quorum)}"
    if kind == "mgr" and not status.mgr_available:
        return "no manager is available"
    if kind == "mds" and not active(cluster.client):
        return "no metadata server is active"
    reported: list[dict[str, Any]] = cluster.client.mon(f"{kind} metadata")
    entry = next((entry for entry in reported if str(entry.get("name", entry.get("id"))) == ident), {})
    return str(entry.get("ceph_version", "no metadata"))


def version_of(host: Host, kind: str) -> str:
    """The version that a program prints, like `ceph version 18.2.7 (...) reef (stable)`."""
    return host.run([f"ceph-{kind}", "--version"], timeout_s=60).stdout.strip()


def mix(cluster: Cluster) -> dict[str, int]:
    """Release -> number of daemons that run it, as they reported when they started."""
    versions = (
        str(entry.get("ceph_version", "")) for kind in ORDER for entry in cluster.client.mon(f"{kind} metadata")
    )
    # `ceph version 18.2.7 (commit) reef (stable)`
    return dict(Counter(words[4] if len(words := version.split()) > 4 else "unknown" for version in versions))


def upgrade(cluster: Cluster, release: str, images: Images, after: Callable[[Step], None]) -> None:
    """Upgrade every Ceph daemon. It calls `after` when a daemon serves again."""
    targets = hosts_of(cluster, images)
    core = [daemon for daemon in cluster.daemons.values() if daemon.kind in ORDER and daemon.kind != "mds"]
    in_order = sorted(core, key=lambda daemon: (ORDER.index(daemon.kind), daemon.name))
    # OSDs that are down must stay in during an upgrade, by the documentation.
    cluster.client.mon("osd set", key="noout")
    try:
        for daemon in in_order:
            after(upgrade_daemon(cluster, daemon.name, targets[daemon.host.name]))
        for name in alone_first(cluster):
            after(upgrade_daemon(cluster, name, targets[cluster.host_of(name).name]))
        # Forbids OSDs of older releases, and so enables the features of the newer one.
        cluster.client.mon("osd require-osd-release", release=release)
    finally:
        cluster.client.mon("osd unset", key="noout")


def alone_first(cluster: Cluster) -> list[str]:
    """Stop the standby metadata servers, as documented. Returns the active ones, then the standbys."""
    servers = sorted(name for name, daemon in cluster.daemons.items() if daemon.kind == "mds")
    serving = active(cluster.client) if servers else []
    idle = [name for name in servers if name not in serving]
    for name in idle:
        cluster.stop(name)
    return serving + idle


PG_NUM = 8
OBJECTS = 12
OBJECT_BYTES = 200_000
PAUSE_S = 0.02
"""Pause between two operations of a worker. Without it the load would leave the upgrade no time on two cores."""
LEAST_A_MIX = 5
"""Operations that clients must complete before the next daemon is upgraded, which shows that the mix serves."""
SERVED_S = 60.0
PEERING_S = 10.0
"""Time for peering and the first operations after it, once the map shows a stopped OSD as down, before patience."""

HEALTHY_S = 120.0
OLD_KEYS = "AUTH_INSECURE_"
"""Prefix of the health codes about the old type of keys, and about settings that still allow it."""

POOLS = {"copies": REPLICATED, "shards": EC_2_1}
LIVE = "live"
"""The pool under load. Nobody writes to the others during the upgrade."""

EXPECTED = {
    **HEALTH_TOLD,
    **DEAD_COUNT,
    **PEERS_MISSED,
    r"mgr\.server reply reply \((11|16)\)": "The manager logs that an OSD may not stop yet.",
    r"mgr handle_mgr_map I was active but no longer am": (
        "A manager that starts while monitors elect a leader may be made active twice. It then restarts itself."
    ),
    r"ENGINE (Error in 'start' listener <bound method Server\.start |Shutting down due to error in start listener:)": (
        "A manager whose monitor stops notifies its modules of options that did not change. Its module prometheus then "
        "restarts its server, even one that is still starting. After the upgrade the metrics must answer."
    ),
    r'"GET /metrics HTTP/1\.1" 200 ': "The scenario asked for the metrics.",
    r"mgr\[py\] Module \S+ has missing NOTIFY_TYPES member": "A starting manager loads such modules all the same.",
    r"mgr\[py\] Loading module \S+ in main interpreter": "Tentacle's manager logs this for each module at error level.",
    r"read_superblock omap replica is missing": "Older OSDs keep one copy of the superblock; newer OSDs add a second.",
}


def rolling(stage: Stage, through: Sequence[str]) -> None:
    """Fill pools, upgrade to each release in turn under load, and let clients of the newest release read everything."""
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "clients must see no errors during an upgrade")
    for name, kind in {**POOLS, LIVE: REPLICATED}.items():  # not removed, because nobody uses this cluster again
        pools.create(cluster, name, kind, pg_num=PG_NUM)
    mirrors = [filled(stage, pool, number) for number, pool in enumerate(POOLS)]
    load = new_load(stage)
    wait_until_noticed(stage, PEERING_S, copying(stage, load.load.most_bytes))
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
    observe_copies_in(stage, (*POOLS, LIVE), least=PG_NUM)


def filled(stage: Stage, pool: str, number: int) -> Mirror:
    """Write objects with the oldest release: content, attributes, a snapshot and, if the pool allows it, omap."""
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
    """Load from clients of the oldest release, one per architecture. The documentation upgrades clients last."""
    load = Load(pool=LIVE, nodes=client_nodes(stage.cluster), seed=stage.rng.randrange(1 << 30), pause_s=PAUSE_S)
    return RecordedLoad(stage.cluster, stage.recorder, load)


def one_release(stage: Stage, release: str, load: RecordedLoad) -> dict[str, Host]:
    """Upgrade every daemon to one release. Returns the nodes with that release's programs."""
    cluster, recorder = stage.cluster, stage.recorder
    images = images_of(cluster, release)

    def after(step: Step) -> None:
        arch = cluster.hosts[step.node].arch
        recorder.step(f"{step.daemon} ({arch}) to {release}")
        recorder.record("mix", mix=dict(step.mix))
        if step.killed:
            note_killed(recorder, step.daemon)
        before = load.completed()
        cluster.wait(
            lambda _status: load.completed() >= before + LEAST_A_MIX,
            what=f"clients served by {dict(step.mix)}",
            timeout_s=SERVED_S,
        )

    upgrade(cluster, release, images, after)
    known = sum(daemon.kind in ORDER for daemon in cluster.daemons.values())
    recorder.observe(f"daemons after the upgrade to {release}", got=mix(cluster), wanted={release: known})
    required = cluster.client.mon("osd dump")["require_osd_release"]
    recorder.observe("release that OSDs must have", got=required, wanted=release)
    what, timeout_s = f"metrics of the active manager after the upgrade to {release}", _RESTART_S * cluster.patience
    clock.wait(lambda: missing_metrics(cluster), not_, what=what, timeout_s=timeout_s)
    return hosts_of(cluster, images)


def missing_metrics(cluster: Cluster) -> str:
    """Empty if the metrics of the active manager answer, else what is missing."""
    address = urlsplit(cluster.client.mon("mgr services").get(PROMETHEUS.kind, "")).netloc
    if not address:
        return "the active manager names no address of its metrics"
    return silent_http("the active manager", cluster.client.host, address, "/metrics")


def images_of(cluster: Cluster, release: str) -> Images:
    """The images of a release. Missing images are built."""
    store = ImageStore(cluster.run.home)
    return {arch: store.get(release, arch) for arch in cluster.spec.archs}


def put_up_with_old_keys(stage: Stage) -> None:
    """Mute health checks about an older release's keys, whose type changes only when they are rotated.

    Ceph 20.2.4 reports the keys of every earlier release as insecure (CVE-2025-30156). Clients of those releases, such
    as the load here, know no other type. All other health checks must still be gone.
    """
    cluster = stage.cluster
    status = cluster.wait(
        lambda status: status.all_up and status.clean and not others(status),
        what="no health checks except those about the type of keys",
        timeout_s=HEALTHY_S,
    )
    muted = [check.code for check in status.checks]
    for code in muted:
        cluster.client.mon("health mute", code=code, sticky=True)
    stage.recorder.record("muted", what="health checks about the older release's keys", codes=muted)


def others(status: Status) -> list[str]:
    """Codes of the health checks about anything except the type of keys."""
    return [check.code for check in status.checks if not check.code.startswith(OLD_KEYS)]


def read_back(stage: Stage, targets: Mapping[str, Host], mirrors: Sequence[Mirror]) -> None:
    """Read what the oldest release wrote, with clients of the newest on both architectures, from primaries on both."""
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
    """Observe that the tools of both releases and architectures place PGs equally by the older release's last map.

    By the current map, the newer tools must place PGs as the cluster does. Older tools need not, because those of
    pacific and reef cannot read a map of tentacle.
    """
    cluster, archs = stage.cluster, stage.cluster.spec.archs
    sides = {f"the older release on {arch}": target_of(older, arch) for arch in archs}
    sides |= {f"the newer release on {arch}": target_of(newer, arch) for arch in archs}
    mappings = {side: movement.parse_mappings(replay_map(cluster, old_map, host)) for side, host in sides.items()}
    first = next(iter(mappings.values()))
    for side, mapping in mappings.items():
        wrong = sorted(pgid for pgid in first.keys() | mapping.keys() if mapping.get(pgid) != first.get(pgid))
        title = f"PGs of the older map that {side} places elsewhere"
        stage.recorder.observe(title, got=wrong, wanted=[], of=len(first))
    stage.recorder.witness("PGs in the older map", got=len(first), least=PG_NUM * len(POOLS))
    real = {pg.pgid: pg.acting for pool in POOLS for pg in pools.pgs_of(cluster, pool)}
    now = cluster.client.command("mon", "osd getmap")
    for arch in archs:
        mapping = movement.parse_mappings(replay_map(cluster, now, target_of(newer, arch)))
        wrong = sorted(pgid for pgid, acting in real.items() if mapping.get(pgid) != acting)
        title = f"PGs that the newer release on {arch} places elsewhere than the cluster"
        stage.recorder.observe(title, got=wrong, wanted=[], of=len(real))


def target_of(targets: Mapping[str, Host], arch: Arch) -> Host:
    for host in targets.values():
        if host.arch is arch:
            return host
    raise LabBroken(f"no upgraded node has the architecture {arch}", ", ".join(targets))


def scenario(first: str, through: Sequence[str], tier: Tier, *, mixed: bool = True) -> Scenario:
    path = " -> ".join((first, *through))
    if mixed:
        name, nodes, topology = "rolling", "A mixed cluster", Topology(mons=3, clients=True, release=first)
    else:
        name, nodes = "rolling-native", "A cluster of this machine's architecture"
        topology = Topology(native=3, foreign=0, mons=3, lone_client=True, release=first)
    return Scenario(
        name=f"upgrade.{name}[from={first},to={through[-1]}]",
        goal=f"{nodes} upgrades {path} without an error or a lost write, and the newest release reads the oldest data.",
        method="Fills pools; restarts every daemon with the next release in the documented order under load; reads "
        "everything back on each architecture.",
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
