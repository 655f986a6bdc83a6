"""What a shell completes: values of options, and names of clusters, profiles and archives that exist."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from cephlab.cli.world import World, world_of
from cephlab.lab.base.errors import LabError

if TYPE_CHECKING:
    from cephlab.lab.cluster.own import OwnCluster

Completer = Callable[[typer.Context, str], list[str]]


def completing(values: Callable[[World], Iterable[str]]) -> Completer:
    """A completion function for typer. It offers nothing if the values cannot be listed."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return [value for value in values(world_of(ctx)) if value.startswith(incomplete)]
        except (LabError, OSError):
            return []

    return complete


def _labs(world: World) -> list[str]:
    from cephlab.lab.providers.select import AUTO

    return [AUTO, *world.providers]


def _releases(_: World) -> list[str]:
    from cephlab.lab.images.recipe import read_recipes

    return sorted(read_recipes().releases)


def _suites(_: World) -> list[str]:
    from cephlab.fixtures.run import suite_names

    return [*suite_names(), "all"]


def _profiles(world: World) -> list[str]:
    from cephlab.tuning.profilefile import profile_files

    return sorted(profile_files(world.home.profiles))


def _clusters(world: World) -> list[str]:
    return [str(run.id) for run in world.runs.all()]


def _images(world: World) -> list[str]:
    images = world.images.list()
    return sorted({image.release for image in images} | {image.key[:12] for image in images})


def _demanded(_: World) -> list[str]:
    from cephlab.lab.spec.clusterspec import KNOWN_RELEASES

    return list(KNOWN_RELEASES)


def _measured(_: World) -> list[str]:
    from cephlab.lab.telemetry.plan import OPERATIONS

    return list(OPERATIONS)


def _predicted(_: World) -> list[str]:
    from cephlab.tuning.workload import OPERATIONS

    return list(OPERATIONS)


def _roles(_: World) -> list[str]:
    from cephlab.lab.images.recipe import read_recipes

    return sorted(read_recipes().role_sets)


def _kernels(_: World) -> list[str]:
    from cephlab.lab.images.recipe import read_recipes

    return sorted(read_recipes().kernels)


def _defects(_: World) -> list[str]:
    from cephlab.lab.report.defects import KNOWN, read_defects

    return [defect.name for defect in read_defects(KNOWN)]


def _besides(world: World) -> list[str]:
    return ["baseline", "same", *_releases(world), *_images(world)]


def _tunings(_: World) -> list[str]:
    from cephlab.tuning.named import names

    return list(names())


def _archives(world: World) -> list[str]:
    return sorted(str(manifest.parent) for manifest in world.home.archive.glob("*/manifest.json"))


def _hosts(_: World) -> list[str]:
    from cephlab.lab.base.given import user_path
    from cephlab.lab.spec.inventory import INVENTORY_VARIABLE, load_inventory

    named = os.environ.get(INVENTORY_VARIABLE)
    return [machine.name for machine in load_inventory(user_path(named)).machines] if named else []


LABS = completing(_labs)
RELEASES = completing(_releases)
SUITES = completing(_suites)
PROFILES = completing(_profiles)
CLUSTERS = completing(_clusters)
IMAGES = completing(_images)
TUNINGS = completing(_tunings)
ARCHIVES = completing(_archives)
HOSTS = completing(_hosts)
DEMANDED_RELEASES = completing(_demanded)
MEASURED_OPERATIONS = completing(_measured)
PREDICTED_OPERATIONS = completing(_predicted)
ROLES = completing(_roles)
KERNELS = completing(_kernels)
DEFECTS = completing(_defects)
BESIDES = completing(_besides)


def inside(names: Callable[[OwnCluster], Iterable[str]]) -> Completer:
    """Completes to the names of nodes or daemons of the cluster that the command line names."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        name = ctx.params.get("name")
        return completing(lambda world: sorted(names(world.cluster(name))) if name else ())(ctx, incomplete)

    return complete


NODES = inside(lambda cluster: cluster.hosts)
DAEMONS = inside(lambda cluster: cluster.daemons)


def words(*values: str) -> Completer:
    """Completes to one of these words."""
    return completing(lambda _world: values)


ARCHS = words("x86_64", "aarch64")
