"""Random walks over S3, with each step through a gateway of either architecture."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.interop.walks.s3_model import S3Model
from cephlab.suites.interop.walks.scenarios import Sides, sides_on, take_walk, walk_scenario
from cephlab.suites.object.stand import gateways, near
from cephlab.suites.s3.stand import owner

GATEWAYS = "two gateways of different architectures"


def walked(stage: Stage, tier: Tier, *, versioned: bool = False) -> None:
    """Walk through both gateways from a client of this machine's own architecture.

    versioned: whether the walk switches the bucket's versioning on and off.
    """
    cluster = stage.cluster
    client, door = near(cluster), owner(cluster)
    settings = {"access_key": door.access_key, "secret_key": door.secret_key, "name": cluster.client_name}
    sides: Sides = {}
    for arch, gateway in gateways(cluster).items():
        sides |= sides_on({arch: client}, {"address": gateway.address, **settings})
    take_walk(stage, "s3", partial(S3Model, versioned=versioned), sides, tier)


def scenarios(topology: Topology) -> Iterator[Scenario]:
    for name, run, tier, what in (
        ("walk", walked, Tier.QUICK, "Objects and lists"),
        ("walk-long", walked, Tier.FULL, "Objects and lists"),
        ("walk-versions-long", partial(walked, versioned=True), Tier.FULL, "Versions and lists"),
    ):
        yield replace(walk_scenario(f"s3.{name}", run, tier, what, GATEWAYS), topology=topology, expects={})
