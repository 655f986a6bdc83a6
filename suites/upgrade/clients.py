"""Clients of two releases, of different architectures, at work on the same objects and images of one cluster."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.interop import edges
from cephlab.suites.interop.walks.rados_model import RadosModel
from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.scenarios import settings_of_objects, sides_on, take_walk, walk_scenario
from cephlab.suites.upgrade import rolling

PAIRS = (("pacific", "reef"), ("pacific", "tentacle"), ("reef", "pacific"), ("reef", "tentacle"))
"""(release of the cluster, of the other client). A new cluster of tentacle has keys that older clients do not know."""


def walked(stage: Stage, tier: Tier, *, other: str) -> None:
    """Walk over objects and over images, with a client of either release, each once on either architecture."""
    cluster = stage.cluster
    own = cluster.spec.release
    there = rolling.hosts_of(cluster, rolling.images_of(cluster, other))
    of_objects = settings_of_objects("pool", own, other)
    for arch in Arch:
        hosts = {f"{own}-{arch}": cluster.host_with(arch)}
        hosts[f"{other}-{arch.other}"] = rolling.target_of(there, arch.other)
        objects = partial(RadosModel, omap=True, text_keys=of_objects["keys"] == "text")
        for kind, model, how in (("rados", objects, of_objects), ("rbd", RbdModel, {})):
            with pools.pool(cluster, "walk", pg_num=edges.PG_NUM) as pool:
                settings = {"name": cluster.client_name, "pool": pool, **how}
                take_walk(stage, kind, model, sides_on(hosts, settings), tier)


def scenarios() -> Iterator[Scenario]:
    through = "two clients of different releases and architectures"
    for release, other in PAIRS:
        name, run = f"upgrade.clients[cluster={release},client={other}]", partial(walked, other=other)
        base = walk_scenario(name, run, Tier.FULL, "Objects and images", through)
        topology = Topology(release=release)
        yield replace(base, topology=topology, needs=frozenset({Capability.SECOND_IMAGE}))


SCENARIOS: tuple[Scenario, ...] = tuple(scenarios())
