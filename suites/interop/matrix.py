"""Which architecture an OSD or a client has, and which architecture served the operations of clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import counters

LEAD_S = 60.0

LEAST_SHARE = 0.95
"""Share of client operations that primaries of the wanted architecture must serve. It is not 1, because a few of Ceph's
own tests read from any replica on purpose, and the manager has a pool of its own."""


def arch_of(cluster: Cluster, osd: int) -> Arch:
    return cluster.host_of(f"osd.{osd}").arch


def observe_primaries(stage: Stage, pool: str, primary: Arch) -> None:
    """Observe that the pool's primaries are on this architecture."""
    leading = {arch_of(stage.cluster, osd).value for osd in pools.primaries(stage.cluster, pool).values()}
    stage.recorder.observe("architecture of the primaries", got=sorted(leading), wanted=[primary.value])


def observe_client(stage: Stage, client: Arch) -> None:
    """Observe that the client for an architecture runs as a program of that architecture."""
    machine = stage.cluster.client_for(client).call("about")["machine"]
    stage.recorder.observe("architecture of the writing client", got=machine, wanted=client.value)


@contextmanager
def led_by_one(cluster: Cluster, osd: int, names: tuple[str, ...]) -> Iterator[None]:
    """Inside the block one OSD is the primary of all its PGs in some pools. names: of the pools.

    `pools.primary_on` would allow any OSD of that architecture as primary, even one that the scenario never touched.
    """
    others = [follower for follower in cluster.osd_ids() if follower != osd]
    with pools.never_primary(cluster, others, partial(pools.wait_clean, cluster)):
        clock.wait(
            lambda: {pg.acting_primary for name in names for pg in pools.pgs_of(cluster, name) if osd in pg.acting},
            lambda leaders: leaders == {osd},
            what=f"osd.{osd} leading all its PGs",
            timeout_s=LEAD_S * cluster.patience,
            interval_s=0.2,
        )
        pools.wait_clean(cluster)
        yield


@contextmanager
def counted_operations(stage: Stage, primary: Arch, *, wanted: bool = True) -> Iterator[None]:
    """Witness that primaries of an architecture served nearly all client operations of the block.

    wanted: whether there must be any operations.
    """
    cluster = stage.cluster
    before = operations(cluster)
    yield
    after = operations(cluster)
    led = {osd: after[osd] - before[osd] for osd in after}
    led_by_arch, led_by_all = sum(led[osd] for osd in cluster.osd_ids(primary)), sum(led.values())
    if wanted:
        stage.recorder.witness(f"client operations led by {primary} OSDs", got=led_by_arch, least=1)
    if led_by_all:
        share = led_by_arch / led_by_all
        stage.recorder.witness(f"share of client operations led by {primary} OSDs", got=share, least=LEAST_SHARE)


def operations(cluster: Cluster) -> dict[int, int]:
    """Client operations that each OSD has served as primary since it started."""
    return {osd: int(dump["osd.op"]) for osd, dump in counters.of_osds(cluster).items()}
