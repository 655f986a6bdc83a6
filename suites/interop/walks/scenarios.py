"""Random walks over RADOS and RBD, with each step through a client of either architecture."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from random import Random
from typing import Any, TypeAlias

from cephlab.lab.base import clock
from cephlab.lab.ceph import conf
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.expected import DEAD_COUNT, OSD_STOPPED, PEERS_MISSED
from cephlab.suites.interop import edges
from cephlab.suites.interop.objects import observe_trimmed
from cephlab.suites.interop.scrub import observe_copies
from cephlab.suites.interop.walks.live import LOOK_EVERY, Line, Walking, lines, walk
from cephlab.suites.interop.walks.rados_model import RadosModel
from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.walk import Model

QUICK_STEPS, FULL_STEPS = 60, 600
SPLIT_S = 120.0
"""Time until a pool has as many PGs as a walk asked for last, before patience. The manager merges them one by one."""
MOVED = {**edges.ODD_PG_NUM, **OSD_STOPPED, **PEERS_MISSED, **DEAD_COUNT}
"""What daemons log about a walk that restarts OSDs."""

CLIENTS = "two clients of different architectures"

Sides: TypeAlias = dict[str, tuple[Host, Mapping[str, str]]]


def clients(cluster: Cluster, settings: Mapping[str, str]) -> Sides:
    """A side on a host of each architecture. settings: in addition to the host's own configuration."""
    return sides_on({arch: cluster.host_with(arch) for arch in Arch}, settings)


def sides_on(hosts: Mapping[str, Host], settings: Mapping[str, str]) -> Sides:
    """A side on each host. settings: in addition to the host's own configuration."""
    return {str(name): (host, {"conf": str(conf.conf_path(host)), **settings}) for name, host in hosts.items()}


def take_walk(stage: Stage, kind: str, model: Callable[[Random], Model], sides: Sides, tier: Tier) -> None:
    """Take one walk. model: makes the model from a random generator."""
    with lines(kind, sides, stage.cluster.patience) as ends:
        seed = stage.rng.randrange(1 << 31)
        walk(stage, walking_on(ends, kind, model, seed), steps_of(tier))


def walking_on(
    ends: Mapping[str, Line], kind: str, model: Callable[[Random], Model], seed: int, **settings: str
) -> Walking:
    """Walks through these sides. settings: those that a printed program needs."""
    return Walking(kind, lambda: model(Random(seed)), ends, f"t{seed % 1000}x", settings)


def steps_of(tier: Tier) -> int:
    return QUICK_STEPS if tier is Tier.QUICK else FULL_STEPS


@dataclass(frozen=True)
class Restarting(Line):
    """A side whose cluster belongs to the lab, so that an OSD can really crash and start again."""

    cluster: Cluster

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        if operation != "restart":
            return super().ask(operation, arguments)
        self.cluster.wait(lambda status: status.all_up, what="the OSD that crashed before up again")
        osds = self.cluster.osd_ids()
        name = f"osd.{osds[arguments['number'] % len(osds)]}"
        self.cluster.kill(name)
        self.cluster.start(name)
        return None


def settings_of_objects(snapshots: str, *releases: str) -> dict[str, str]:
    """Settings of a walk over RADOS by clients of these releases: pacific takes keys of omaps as text only."""
    return {"snapshots": snapshots, "keys": "text" if "pacific" in releases else "bytes"}


def rados(
    stage: Stage,
    kind: PoolKind,
    tier: Tier,
    *,
    primary: Arch | None = None,
    managed: bool | None = None,
    moving: bool = False,
) -> None:
    """Walk over objects of one pool. primary: the architecture that leads it; None for any.

    managed: whether clients manage the snapshots; None to draw it. moving: whether OSDs, PGs and copies change during
    the walk.
    """
    cluster, rng = stage.cluster, stage.rng
    snapshots = "managed" if (rng.random() < 0.5 if managed is None else managed) else "pool"
    with ExitStack() as stack:
        pool = stack.enter_context(pools.pool(cluster, "walk", kind, pg_num=edges.PG_NUM))
        if primary:
            stack.enter_context(pools.primary_on(cluster, primary, pool))
        how = settings_of_objects(snapshots, cluster.spec.release)
        settings = {"name": cluster.client_name, "pool": pool, **how}
        ends = stack.enter_context(lines("rados", clients(cluster, settings), cluster.patience))
        if moving:
            clean = partial(pools.wait_clean, cluster)
            stack.enter_context(pools.affinity_restored(cluster, cluster.osd_ids(), clean))
            ends = {side: Restarting(line.channel, line.patience, cluster) for side, line in ends.items()}
        model = partial(RadosModel, omap=not kind.erasure, moving=moving, text_keys=how["keys"] == "text")
        walking = walking_on(ends, "rados", model, rng.randrange(1 << 31), **how)
        walk(stage, walking, steps_of(tier))
        if tier is Tier.FULL:
            leave(stage, walking, pool)


def leave(stage: Stage, walking: Walking, pool: str) -> None:
    """Observe that the copies of all that a walk left are equal, snapshots included, and that these can be trimmed."""
    cluster = stage.cluster
    clock.wait(
        partial(numbers_of_pgs, cluster, pool),
        lambda numbers: len(numbers) == 1,
        what=f"{pool} with the number of PGs that the walk asked for",
        timeout_s=SPLIT_S * cluster.patience,
    )
    pools.wait_clean(cluster)
    observe_copies(stage, pool, "after the walk", least=1)
    for side in walking.sides.values():
        side.begin("nowhere")
    observe_trimmed(stage, pool)


def numbers_of_pgs(cluster: Cluster, pool: str) -> set[int]:
    """How many PGs a pool has, places and is to have."""
    entry = pools.by_name(cluster)[pool]
    return {int(entry[f"pg_{key}"]) for key in ("num", "num_target", "placement_num", "placement_num_target")}


def rbd(stage: Stage, tier: Tier) -> None:
    cluster = stage.cluster
    with pools.pool(cluster, "walk", pg_num=edges.PG_NUM) as pool:
        sides = clients(cluster, {"name": cluster.client_name, "pool": pool})
        take_walk(stage, "rbd", RbdModel, sides, tier)


def walk_scenario(name: str, run: Callable[..., None], tier: Tier, what: str, through: str = CLIENTS) -> Scenario:
    """A scenario that walks. what: all that the walk changes; through: the two sides that take its steps."""
    return Scenario(
        name=name,
        goal=f"{what} hold what was written last, whichever architecture wrote it and whichever one reads it.",
        method=f"Takes {steps_of(tier)} random steps, each through one of {through}; compares every answer, and every "
        f"{LOOK_EVERY} steps the whole state, with a model; shortens a walk that goes wrong.",
        run=partial(run, tier=tier),
        check="witnessed",
        sees=("operations of .* through .*", "wrong answers on a walk over .*|walk over .*"),
        tier=tier,
        expects=edges.ODD_PG_NUM,
    )


def scenarios() -> Iterator[Scenario]:
    walk = "interop.walk"
    for kind, primary in product((REPLICATED, EC_2_1), Arch):
        run, name = partial(rados, kind=kind, primary=primary), f"primary={primary},pool={kind.name}"
        yield walk_scenario(f"{walk}-rados-long[{name}]", run, Tier.FULL, "Objects")
    for kind in (REPLICATED, EC_2_1):
        run = partial(rados, kind=kind, managed=True)
        what = "Objects, and snapshots that clients manage,"
        yield walk_scenario(f"{walk}-rados-managed-long[pool={kind.name}]", run, Tier.FULL, what)
        run = partial(rados, kind=kind, moving=True)
        what = "Objects, while OSDs crash, PGs split and primaries change,"
        moved = walk_scenario(f"{walk}-rados-moved-long[pool={kind.name}]", run, Tier.FULL, what)
        yield replace(moved, expects=MOVED)
    for tier, name in ((Tier.QUICK, ""), (Tier.FULL, "-long")):
        yield walk_scenario(f"{walk}-rbd{name}", rbd, tier, "Images, snapshots and clones")
    yield walk_scenario(f"{walk}-rados", partial(rados, kind=REPLICATED), Tier.QUICK, "Objects")


SCENARIOS: tuple[Scenario, ...] = tuple(scenarios())
