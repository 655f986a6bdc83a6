"""Makes and deletes pools, and moves their primary OSDs to a chosen architecture."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import try_all
from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.ceph.pgs import Pg, Placement, pgids
from cephlab.lab.cluster.cluster import Cluster, newest_map
from cephlab.lab.spec.arch import Arch

_SETTLE_S = 60.0


@dataclass(frozen=True)
class PoolKind:
    """How a pool stores its data. k is 0 for replication; size counts replicas, or shards k+m.

    more: more keys of the erasure-code profile and their values.
    """

    name: str
    size: int
    k: int = 0
    m: int = 0
    plugin: str = "jerasure"
    more: tuple[tuple[str, str], ...] = ()

    @property
    def erasure(self) -> bool:
        return self.k > 0


REPLICATED = PoolKind("replicated", 3)
EC_2_1 = PoolKind("ec21", 3, k=2, m=1)


def create(
    cluster: Cluster,
    name: str,
    kind: PoolKind = REPLICATED,
    *,
    pg_num: int = 8,
    options: Mapping[str, str] | None = None,
) -> None:
    """Make a pool and wait until its PGs are active+clean. options: `osd pool set` values, e.g. compression_mode."""
    client = cluster.client
    if kind.erasure:
        profile = f"{name}-profile"
        values = [f"k={kind.k}", f"m={kind.m}", f"plugin={kind.plugin}", "crush-failure-domain=host"]
        values += [f"{key}={value}" for key, value in kind.more]
        client.mon("osd erasure-code-profile set", name=profile, profile=values)
        client.mon("osd pool create", pool=name, pg_num=pg_num, pool_type="erasure", erasure_code_profile=profile)
        client.mon("osd pool set", pool=name, var="allow_ec_overwrites", val="true")
    else:
        client.mon("osd pool create", pool=name, pg_num=pg_num, size=kind.size)
    client.mon("osd pool application enable", pool=name, app="rados")
    for key, value in (options or {}).items():
        client.mon("osd pool set", pool=name, var=key, val=value)
    wait_clean(cluster)


def delete(cluster: Cluster, name: str) -> None:
    """Remove a pool and, if it has them, its erasure-code profile and CRUSH rule."""
    client = cluster.client
    for known in list(cluster.clients.values()):  # other threads may add one
        if known.alive():
            known.call("forget_pool", pool=name)
    client.mon("osd pool delete", pool=name, pool2=name, yes_i_really_really_mean_it=True)
    if f"{name}-profile" in client.mon("osd erasure-code-profile ls"):
        client.mon("osd crush rule rm", name=name)
        client.mon("osd erasure-code-profile rm", name=f"{name}-profile")


@contextmanager
def pool(
    cluster: Cluster,
    name: str,
    kind: PoolKind = REPLICATED,
    *,
    pg_num: int = 8,
    options: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A pool for the length of a block."""
    create(cluster, name, kind, pg_num=pg_num, options=options)
    try:
        yield name
    finally:
        delete(cluster, name)


@contextmanager
def none_left(cluster: Cluster) -> Iterator[None]:
    """Remove the pools that the block leaves behind, except Ceph's own, and cache tiers, which Ceph does not remove."""
    before = set(cluster.client.mon("osd pool ls"))
    try:
        yield
    finally:
        left = sorted(set(cluster.client.mon("osd pool ls")) - before)
        try_all(partial(_delete_unless_refused, cluster, name) for name in left if not name.startswith("."))


def _delete_unless_refused(cluster: Cluster, name: str) -> None:
    with suppress(CephCommandFailed):
        delete(cluster, name)


def by_name(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The pools of the OSD map."""
    return {pool["pool_name"]: pool for pool in cluster.client.mon("osd dump")["pools"]}


def pgs_of(cluster: Cluster, name: str) -> tuple[Pg, ...]:
    """A pool's PGs as their primary OSDs see them now."""
    return cluster.client.pgs(pgids(by_name(cluster)[name]))


def primaries(cluster: Cluster, name: str) -> dict[str, int]:
    """Acting primary of each PG of a pool: pgid -> OSD id."""
    return {pg.pgid: pg.acting_primary for pg in pgs_of(cluster, name)}


def locate(cluster: Cluster, name: str, object_name: str) -> dict[str, Any]:
    """Where an object is: {pgid, up, up_primary, acting, acting_primary}."""
    return dict(cluster.client.mon("osd map", pool=name, object=object_name))


def primary_on(cluster: Cluster, arch: Arch, name: str) -> AbstractContextManager[None]:
    """Inside the block every PG of a pool has its primary on an OSD of this architecture."""
    return _led_by(cluster, cluster.osd_ids(arch), name)


def primary_is(cluster: Cluster, osd: int, name: str) -> AbstractContextManager[None]:
    """Inside the block every PG of a pool has this OSD as its primary.

    The pool must have as many replicas or shards as there are OSDs, because an OSD can be primary only of its own PGs.
    """
    return _led_by(cluster, [osd], name)


def led_by(cluster: Cluster, arch: Arch) -> AbstractContextManager[None]:
    """As `primary_on`, for all pools, including those made inside the block."""
    return _led_by(cluster, cluster.osd_ids(arch))


@contextmanager
def _led_by(cluster: Cluster, leaders: Sequence[int], *names: str) -> Iterator[None]:
    """Set the primary affinity of all other OSDs to 0, and to 1 afterwards. Works for erasure-coded pools too.

    names: pools for which to wait until the leaders are primary for all PGs.
    """
    others = [osd for osd in cluster.osd_ids() if osd not in leaders]
    with never_primary(cluster, others, partial(wait_clean, cluster)):
        for name in names:
            clock.wait(
                partial(primaries, cluster, name),
                lambda primaries: bool(primaries) and set(primaries.values()) <= set(leaders),
                what=f"every primary of {name} on {' or '.join(f'osd.{osd}' for osd in leaders)}",
                timeout_s=_SETTLE_S * cluster.patience,
                interval_s=0.2,
            )
        wait_clean(cluster)
        yield


@contextmanager
def never_primary(cluster: Cluster, osds: Sequence[int], *then: Callable[[], object]) -> Iterator[None]:
    """Inside the block the primary affinity of some OSDs is 0, afterwards 1. then: what is to do after that."""
    with affinity_restored(cluster, osds, *then):
        for osd in osds:
            _set_affinity(cluster, osd, 0.0)
        yield


@contextmanager
def affinity_restored(cluster: Cluster, osds: Sequence[int], *then: Callable[[], object]) -> Iterator[None]:
    """After the block the primary affinity of some OSDs is 1, whatever it was before. then: to do after that."""
    try:
        yield
    finally:
        try_all([*(partial(_set_affinity, cluster, osd, 1.0) for osd in osds), *then])


def wait_clean(cluster: Cluster, timeout_s: float = _SETTLE_S) -> Placement:
    """Wait until every OSD is up and every PG active+clean with the newest map at this call. Ignores health warnings.

    Asks the primary OSD of each PG, because the monitors' statistics are up to two seconds old and may show the clean
    state from before a change.
    """
    return clock.wait(
        partial(_placement, cluster),
        lambda placement: placement.clean,
        what="all PGs active+clean",
        timeout_s=timeout_s * cluster.patience,
    )


def wait_placed(cluster: Cluster, name: str) -> None:
    """Wait until all PGs are clean, and those of a pool on the OSDs that CRUSH chooses.

    After a backfill a PG is active+clean+remapped, still on its former OSDs, until the monitors have removed its
    `pg_temp`. Do not call it where CRUSH finds too few OSDs: PGs stay remapped there.
    """
    wait_clean(cluster)
    clock.wait(
        partial(pgs_of, cluster, name),
        lambda pgs: all(pg.clean_at(0) and not pg.remapped for pg in pgs),
        what=f"all PGs of {name} where CRUSH puts them",
        timeout_s=_SETTLE_S * cluster.patience,
    )


def wait_map_in_use(cluster: Cluster, *names: str) -> None:
    """Wait until every PG of some pools works with the map that is newest at the time of the call.

    An OSD that says it has a map may not use it yet: its PGs get the map once it is committed (`OSD::handle_osd_map`
    and `_committed_osd_maps`). Until then they serve a client that the map refuses.
    """
    epoch = cluster.wait_map(cluster.up_osds())
    clock.wait(
        lambda: [pg for name in names for pg in pgs_of(cluster, name)],
        lambda pgs: all(pg.epoch >= epoch for pg in pgs),
        what=f"all PGs of {' and '.join(names)} at map {epoch}",
        timeout_s=_SETTLE_S * cluster.patience,
    )


def _placement(cluster: Cluster) -> Placement:
    cluster.check_daemons()
    dump = cluster.client.mon("osd dump")
    epoch = int(dump["epoch"])
    waiting = tuple(_absent(cluster, dump)) or tuple(_behind(cluster, dump, epoch))
    if waiting:
        return Placement(epoch, (), waiting)
    return Placement(epoch, cluster.client.pgs([pgid for pool in dump["pools"] for pgid in pgids(pool)]), ())


def _absent(cluster: Cluster, dump: Mapping[str, Any]) -> Iterator[str]:
    """OSDs that are down in the map, or stopped but still up in the map."""
    for osd in dump["osds"]:
        name = f"osd.{osd['osd']}"
        daemon = cluster.daemons.get(name)
        if not osd["up"]:
            yield f"{name} is down"
        elif daemon is not None and not daemon.alive():
            yield f"{name} is stopped"


def _behind(cluster: Cluster, dump: Mapping[str, Any], epoch: int) -> Iterator[str]:
    """OSDs that do not have the map yet. An OSD that was killed and restarted answers once it has booted."""
    for osd in dump["osds"]:
        newest = newest_map(cluster, osd["osd"])
        if newest < epoch:
            yield f"osd.{osd['osd']} is at map {newest}"


def _set_affinity(cluster: Cluster, osd: int, weight: float) -> None:
    cluster.client.mon("osd primary-affinity", id=osd, weight=weight)
