"""Random walks over RADOS, RBD and S3, with each step through a client or a gateway of either architecture."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import product
from random import Random
from typing import TypeAlias

from cephlab.lab.ceph import conf
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import further_gateway, gateway
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.live import LOOK_EVERY, Walking, lines, walk
from cephlab.suites.interop.walks.rados_model import RadosModel
from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.s3_model import S3Model
from cephlab.suites.interop.walks.walk import Model

QUICK_STEPS, FULL_STEPS = 60, 600

Sides: TypeAlias = dict[str, tuple[Host, Mapping[str, str]]]


def clients(cluster: Cluster, settings: Mapping[str, str]) -> Sides:
    """A side on a host of each architecture. settings: in addition to the host's own configuration."""
    return sides_on({arch: cluster.host_with(arch) for arch in Arch}, settings)


def sides_on(hosts: Mapping[Arch, Host], settings: Mapping[str, str]) -> Sides:
    """A side on each host. settings: in addition to the host's own configuration."""
    return {arch.value: (host, {"conf": str(conf.conf_path(host)), **settings}) for arch, host in hosts.items()}


def take_walk(stage: Stage, kind: str, model: Callable[[Random], Model], sides: Sides, tier: Tier) -> None:
    """Take one walk. model: makes the model from a random generator."""
    seed = stage.rng.randrange(1 << 31)
    with lines(kind, sides, stage.cluster.patience) as lines_of:
        walking = Walking(kind, lambda: model(Random(seed)), lines_of, f"t{seed % 1000}x")
        walk(stage, walking, QUICK_STEPS if tier is Tier.QUICK else FULL_STEPS)


def rados(stage: Stage, kind: PoolKind, primary: Arch | None, tier: Tier) -> None:
    """Walk over objects of one pool. primary: the architecture that leads it; None for any."""
    cluster = stage.cluster
    with ExitStack() as stack:
        pool = stack.enter_context(pools.pool(cluster, "walk", kind, pg_num=edges.PG_NUM))
        if primary:
            stack.enter_context(pools.primary_on(cluster, primary, pool))
        sides = clients(cluster, {"name": cluster.client_name, "pool": pool})
        take_walk(stage, "rados", partial(RadosModel, omap=not kind.erasure), sides, tier)


def rbd(stage: Stage, tier: Tier) -> None:
    cluster = stage.cluster
    with pools.pool(cluster, "walk", pg_num=edges.PG_NUM) as pool:
        sides = clients(cluster, {"name": cluster.client_name, "pool": pool})
        take_walk(stage, "rbd", RbdModel, sides, tier)


def s3(stage: Stage, tier: Tier, *, versioned: bool = False) -> None:
    """Walk through one gateway on a host of each architecture. The client has this machine's own architecture.

    versioned: whether the walk switches the bucket's versioning on and off.
    """
    cluster = stage.cluster
    first, second = (cluster.host_with(arch) for arch in Arch)
    client = cluster.client.host
    with gateway(cluster, first.name, REPLICATED) as entrance, further_gateway(cluster, second.name, entrance) as other:
        keys = {"access_key": entrance.access_key, "secret_key": entrance.secret_key}
        keys |= {"conf": str(conf.conf_path(client)), "name": cluster.client_name}
        sides: Sides = {door.host.arch.value: (client, {"address": door.address, **keys}) for door in (entrance, other)}
        take_walk(stage, "s3", partial(S3Model, versioned=versioned), sides, tier)


def scenario(name: str, run: Callable[..., None], tier: Tier, what: str, through: str) -> Scenario:
    steps = QUICK_STEPS if tier is Tier.QUICK else FULL_STEPS
    return Scenario(
        name=f"interop.walk-{name}",
        goal=f"{what} hold what was written last, whichever architecture wrote it and whichever one reads it.",
        method=f"Takes {steps} random steps, each through one of {through}; compares every answer, and every "
        f"{LOOK_EVERY} steps the whole state, with a model; shortens a walk that goes wrong.",
        run=partial(run, tier=tier),
        check="witnessed",
        sees=("operations of .* through .*", "wrong answers on a walk over .*|walk over .*"),
        tier=tier,
        expects=edges.ODD_PG_NUM,
    )


def scenarios() -> Iterator[Scenario]:
    clients_of_both, gateways = "two clients of different architectures", "two gateways of different architectures"
    for kind, primary in product((REPLICATED, EC_2_1), Arch):
        run, name = partial(rados, kind=kind, primary=primary), f"rados-long[primary={primary},pool={kind.name}]"
        yield scenario(name, run, Tier.FULL, "Objects", clients_of_both)
    for tier, name in ((Tier.QUICK, ""), (Tier.FULL, "-long")):
        yield scenario(f"rbd{name}", rbd, tier, "Images, snapshots and clones", clients_of_both)
        yield scenario(f"s3{name}", s3, tier, "Objects and lists", gateways)
    versions = partial(s3, versioned=True)
    yield scenario(
        "s3-versions-long", versions, Tier.FULL, "Versions and lists", "two gateways of different architectures"
    )
    yield scenario("rados", partial(rados, kind=REPLICATED, primary=None), Tier.QUICK, "Objects", clients_of_both)


SCENARIOS: tuple[Scenario, ...] = tuple(scenarios())
