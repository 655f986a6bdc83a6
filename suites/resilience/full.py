"""A cluster or a pool that fills up: it refuses writes, still serves reads, and takes writes again afterwards."""

import errno
import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM, Deadline, not_reached
from cephlab.lab.base.errors import LabBroken, try_all
from cephlab.lab.ceph.client import RadosClient, RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.full import Level, restore_thresholds, set_threshold, thresholds
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.limits import copying
from cephlab.suites.resilience.trial import PG_NUM, returned, scenario_under_load

ROOM_BYTES = 48 << 20
"""Free space left on each OSD: enough that clients write before the full flag is set, little enough to be quick."""
OBJECT_BYTES = 2 << 20
FEW_OBJECTS = 3
MOST_OBJECTS = 200
"""Eight times the free space: a cluster that takes all of these does not become full."""
REFUSAL_S = 5
"""The shortest time that a client waits for a write that Ceph holds back. Ceph's own clients wait for ever."""
REFUSAL_FACTOR = 10
"""A client waits this many times the slowest write before the cluster was full, if that is longer than REFUSAL_S."""
NOTICE_S = 60.0
LATE = "late"
REFUSALS = frozenset({errno.ETIMEDOUT, errno.ENOSPC, errno.EDQUOT})
"""Ceph holds a write back, or answers that there is no space. Any other error says nothing about space."""


def full(stage: Stage) -> None:
    """Set the full ratio just above the space used; write until refused; read; remove objects; write again."""
    cluster, recorder = stage.cluster, stage.recorder
    options = {"rados_osd_op_timeout": str(round(REFUSAL_S * cluster.patience))}
    client = cluster.new_client(cluster.client.host.name, options=options)
    before = thresholds(cluster)
    try:
        with pools.pool(cluster, "filled", pg_num=PG_NUM[stage.tier]) as pool:
            mirror = Mirror(client, pool)
            slowest_s = timed(partial(mirror.full, "first", stage.rng.randbytes(OBJECT_BYTES)))
            lower(cluster)
            with hasty(cluster, slowest_s, cluster.client.host) as filling:
                written, slowest_s = fill(stage, Mirror(filling, pool, mirror.objects), slowest_s)
            recorder.witness("objects written before the cluster was full", got=written, least=1)
            # Monitors report OSD_FULL before OSDs have the new map. Until a PG uses that map, it may still take writes.
            cluster.settle()
            with hasty(cluster, slowest_s, cluster.client.host) as other:
                recorder.observe("a write to a full cluster is refused", got=refused(other, pool), wanted=True)
            recorder.observe("health reports OSD_FULL", got=cluster.status().has("OSD_FULL"), wanted=True)
            mirror.verify(cluster.client, recorder, "while the cluster is full")
            free(cluster, mirror)
            cluster.wait(lambda status: not status.has("OSD_FULL"), what="OSD_FULL to clear", timeout_s=NOTICE_S)
            recorder.observe("a write after space was freed is refused", got=refused(client, pool), wanted=False)
            client.remove(pool, LATE)
            mirror.verify(cluster.client, recorder, "after space was freed")
    finally:
        try_all([client.close, partial(restore_thresholds, cluster, before)])
    returned(stage, copying(stage, MOST_OBJECTS * OBJECT_BYTES))


def lower(cluster: Cluster) -> None:
    """Make an OSD full once it holds ROOM_BYTES more than the fullest does now."""
    nodes = cluster.client.mgr("osd df")["nodes"]
    ratio = max((float(entry["kb_used"]) * 1024 + ROOM_BYTES) / (float(entry["kb"]) * 1024) for entry in nodes)
    for level, share in ((Level.NEARFULL, 0.90), (Level.BACKFILLFULL, 0.95), (Level.FULL, 1.0)):
        set_threshold(cluster, level, ratio * share)


def fill(stage: Stage, mirror: Mirror, slowest_s: float) -> tuple[int, float]:
    """Write until health reports a full OSD; returns the number of objects written and the slowest write in seconds.

    Ceph may hold a write back before health reports why. So a write that timed out is tried again. As long as no OSD
    is full, an object must be written within NOTICE_S.
    """
    cluster, number = stage.cluster, 0
    deadline = Deadline.after(NOTICE_S * cluster.patience)
    while not cluster.status().has("OSD_FULL"):
        if number == MOST_OBJECTS:
            detail = f"{MOST_OBJECTS} objects of {OBJECT_BYTES} bytes were written"
            raise LabBroken("the cluster does not become full", detail)
        try:
            took_s = timed(partial(mirror.full, f"o{number}", stage.rng.randbytes(OBJECT_BYTES)))
        except RadosError as error:
            if deadline.passed():
                raise not_reached("a full OSD", deadline.after_s, str(error)) from error
            continue
        number, slowest_s = number + 1, max(slowest_s, took_s)
        deadline = Deadline.after(NOTICE_S * cluster.patience)
    return number, slowest_s


def timed(act: Callable[[], None]) -> float:
    """How long a call takes, in seconds."""
    began = SYSTEM.monotonic()
    act()
    return SYSTEM.monotonic() - began


@contextmanager
def hasty(cluster: Cluster, slowest_s: float, host: Host) -> Iterator[RadosClient]:
    """A client whose writes time out soon after the longest time that this cluster has needed for one."""
    options = {"rados_osd_op_timeout": str(refusal_s(slowest_s))}
    with closing(cluster.new_client(host.name, options=options)) as client:
        yield client


def refusal_s(slowest_s: float) -> int:
    """The seconds after which a write counts as held back, from the slowest write seen on this cluster."""
    return math.ceil(max(REFUSAL_S, REFUSAL_FACTOR * slowest_s))


def refused(client: RadosClient, pool: str) -> bool:
    """Whether a small write is not acknowledged before the client gives up, or is answered that there is no space."""
    try:
        client.write_full(pool, LATE, b"late")
    except RadosError as error:
        if error.errno not in REFUSALS:
            raise
        return True
    return False


def free(cluster: Cluster, mirror: Mirror) -> None:
    """Remove all but the first object, with the flag that lets a removal through on a full cluster."""
    names = [name for name in mirror.objects if name != "first"]
    cluster.tool(cluster.client.host.name, "rados", "-p", mirror.pool, "rm", *names, "--force-full")
    for name in names:
        del mirror.objects[name]


def full_pool(stage: Stage) -> None:
    """Fill a pool up to a quota of objects, then of bytes: no client can write to it until the quota is removed."""
    cluster, recorder = stage.cluster, stage.recorder
    with pools.pool(cluster, "limited", pg_num=PG_NUM[stage.tier]) as pool, pools.pool(cluster, "beside") as beside:
        mirror = Mirror(cluster.client, pool)
        for quota, most in (("max_objects", FEW_OBJECTS), ("max_bytes", FEW_OBJECTS * OBJECT_BYTES)):
            slowest_s = max(
                timed(partial(mirror.full, f"o{number}", stage.rng.randbytes(OBJECT_BYTES)))
                for number in range(FEW_OBJECTS)
            )
            recorder.witness(f"objects in a pool with {quota}", got=len(mirror.objects), least=FEW_OBJECTS)
            limit(cluster, pool, quota, most)
            for arch in cluster.spec.archs:
                with hasty(cluster, slowest_s, cluster.host_with(arch)) as other:
                    got = refused(other, pool)
                recorder.observe(
                    f"a write by {arch} to a pool that has reached {quota} is refused", got=got, wanted=True
                )
            got = refused(cluster.client, beside)
            recorder.observe(f"a write to another pool is refused, {quota}", got=got, wanted=False)
            mirror.verify(cluster.client, recorder, f"from a pool that has reached {quota}")
            limit(cluster, pool, quota, 0)
            got = refused(cluster.client, pool)
            recorder.observe(f"a write to a pool without {quota} is refused", got=got, wanted=False)
            cluster.client.remove(pool, LATE)


def limit(cluster: Cluster, pool: str, quota: str, most: int) -> None:
    """Set a pool's quota, 0 for none, and wait until every OSD knows whether the pool has reached it."""
    cluster.client.mon("osd pool set-quota", pool=pool, field=quota, val=str(most))
    clock.wait(
        lambda: "full_quota" in pools.by_name(cluster)[pool]["flags_names"],
        lambda reached: reached is bool(most),
        what=f"{pool} {'with' if most else 'without'} the flag full_quota",
        timeout_s=NOTICE_S * cluster.patience,
    )
    cluster.settle()


SCENARIOS = (
    scenario_under_load(
        name="resilience.full-cluster",
        goal="A full cluster refuses writes, serves reads, and takes writes again once space is freed.",
        method="Sets the full ratio just above the space used, writes until refused, reads, removes, writes again.",
        run=full,
        check="witnessed",
    ),
    Scenario(
        name="resilience.full-pool",
        goal="A pool that has reached its quota refuses writes by clients of each architecture; other pools do not.",
        method="Sets a quota of objects and then of bytes on a pool that holds as much; writes by each client, reads, "
        "writes to another pool, removes the quota, writes again.",
        run=full_pool,
        check="witnessed",
        tier=Tier.FULL,
        topology=Topology(any_arch=True),
        expects={r"\(POOL_FULL\)|pool '.*' is full \(reached quota's": "The scenario fills a pool up to its quota."},
    ),
)
