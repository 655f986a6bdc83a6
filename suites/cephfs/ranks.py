"""Two active metadata servers, one of each architecture, share a tree, and entries move between their parts."""

from collections.abc import Iterator
from itertools import permutations
from random import Random

from cephlab.lab.base import clock
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.services.mds import FILE_SYSTEM, active
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.cephfs.across import take_topics
from cephlab.suites.cephfs.scrub import scrubbed
from cephlab.suites.cephfs.stand import (
    EXPECTED,
    PAIR,
    rank,
    requests,
    served_by,
    tell,
    wait_active,
)
from cephlab.suites.cephfs.topics import Topic, does, looks, writes
from cephlab.suites.interop.walks.live import lines
from cephlab.suites.interop.walks.scenarios import clients
from cephlab.suites.interop.walks.walk import Step

PIN = "pin"
MOVE_S = 60.0
"""Time for moving a directory to another rank, before patience. A server checks pins at each mds_tick_interval."""


def between(first: str, second: str, _rng: Random) -> Iterator[Step]:
    """Rename and link files and directories from the part of one server to that of the other, and back."""
    yield does(first, "mkdir", "r0")
    yield does(second, "mkdir", "r1")
    yield writes(first, "r0/f", 5000)
    yield writes(second, "r1/g", 6000, seed=8)
    yield does(first, PIN, "r1", rank=1)  # an empty directory would stay at its rank
    yield does(second, "link", "r0/f", "r1/linked")
    yield looks(first)
    yield does(second, "rename", "r0/f", "r1/f")
    yield does(first, "rename", "r1/g", "r0/g")
    yield writes(second, "r0/g", 10, 5995)
    yield looks(first)
    yield does(first, "rename", "r1/f", "r0/g")
    yield does(first, "mkdir", "r1/d")
    yield writes(second, "r1/d/below", 70000)
    yield does(first, "rename", "r1/d", "r0/d")
    yield does(second, "rename", "r0", "r1")
    yield does(second, "snap", "", "both")
    yield does(second, "truncate", "r1/linked", size=9)
    yield does(first, "unlink", "r0/g")
    yield does(first, "rename", "r0/d/below", "r1/linked")
    yield looks(first)
    yield looks(second)
    yield does(first, "drop", "", "both")


TOPICS: dict[str, Topic] = {"between": between}


def has_moved(cluster: Cluster, place: str, step: Step) -> None:
    """After a pin, wait until the rank owns the directory."""
    if step.operation != PIN:
        return
    path, number = f"/{place}/{step.arguments['path']}", step.arguments["rank"]
    clock.wait(
        lambda: {entry["dir"]["path"]: entry["auth_first"] for entry in tell(cluster, rank(number), "get", "subtrees")},
        lambda parts: parts.get(path) == number,
        what=f"rank {number} to own {path}",
        timeout_s=MOVE_S * cluster.patience,
        interval_s=0.5,
    )


def two_active(stage: Stage) -> None:
    """Run the topic twice, so that each client starts once; then go back to one server, and scrub."""
    cluster = stage.cluster
    # The second server restarts itself when its rank ends, which an emulated one on the provider local cannot.
    served_by(cluster, host_arch().other)
    change(cluster, max_mds=2, standby_count_wanted=0)
    try:
        names = sorted(wait_active(cluster, 2))
        before = {name: requests(cluster, name) for name in names}
        with lines("cephfs", clients(cluster, {"name": cluster.client_name}), cluster.patience) as sides:
            for first, second in permutations(sides):
                take_topics(
                    stage,
                    sides,
                    first,
                    second,
                    topics=TOPICS,
                    placed=lambda place, step: has_moved(cluster, place, step),
                )
        archs = sorted(cluster.host_of(name).arch.value for name in active(cluster.client))
        stage.recorder.observe("architectures that serve", got=archs, wanted=sorted(arch.value for arch in Arch))
        least = min(requests(cluster, name) - before[name] for name in names)
        stage.recorder.witness("requests to the less used server", got=least, least=10)
    finally:
        change(cluster, max_mds=1, standby_count_wanted=1)
    wait_active(cluster)
    cluster.wait_healthy()
    scrubbed(stage)


def change(cluster: Cluster, **settings: int) -> None:
    """Change settings of the lab's file system."""
    for name, value in settings.items():
        cluster.client.mon("fs set", fs_name=FILE_SYSTEM, var=name, val=str(value))


SCENARIOS = (
    Scenario(
        name="cephfs.two-active",
        goal="Two active metadata servers, one of each architecture, can share a tree without losing anything.",
        method="Pins a directory to the second server; clients of both architectures rename and link between the two "
        "parts, and snapshot both. Compares every answer with a model. Goes back to one server; scrubs.",
        run=two_active,
        check="witnessed",
        tier=Tier.FULL,
        topology=PAIR,
        sees=tuple(f"wrong answers of between, begun by {arch}" for arch in Arch),
        expects=EXPECTED,
    ),
)
