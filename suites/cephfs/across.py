"""Two clients see the same CephFS tree, whatever the architectures of clients, MDS and primary OSDs."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import permutations, product
from typing import Any

from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.services.mds import DATA_POOL, META_POOL
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs.model import FsModel
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, requests, served_by
from cephlab.suites.cephfs.topics import TOPICS, Topic
from cephlab.suites.interop.matrix import observe_primaries
from cephlab.suites.interop.walks.live import Line, lines, wrong_of
from cephlab.suites.interop.walks.scenarios import clients
from cephlab.suites.interop.walks.walk import Step, take


def run(stage: Stage, mds: Arch, primary: Arch) -> None:
    """Run every topic twice, so that each client starts once."""
    cluster = stage.cluster
    server = served_by(cluster, mds)
    with pools.led_by(cluster, primary):
        before = requests(cluster, server)
        with lines("cephfs", clients(cluster, {"name": cluster.client_name}), cluster.patience) as sides:
            steps = sum(take_topics(stage, sides, first, second) for first, second in permutations(sides))
        handled = requests(cluster, server) - before
        stage.recorder.witness(f"requests to the {mds} metadata server", got=handled, least=steps)
        observe_primaries(stage, META_POOL, primary)
        observe_primaries(stage, DATA_POOL, primary)


def take_topics(
    stage: Stage,
    sides: dict[str, Line],
    first: str,
    second: str,
    *,
    topics: Mapping[str, Topic] | None = None,
    placed: Callable[[str, Step], None] = lambda _place, _step: None,
) -> int:
    """Run each topic in its own tree, started by the first client; observe the first wrong answer.

    placed: called after each step with the tree's directory. Returns the number of steps.
    """
    total = 0
    for name, topic in (topics or TOPICS).items():
        steps = list(topic(first, second, stage.rng))
        place = f"{name}-{first}-{stage.rng.randrange(1 << 31)}"
        for side in sides.values():
            side.begin(place)

        def taking(step: Step, place: str = place) -> Any:
            answer = sides[step.side].ask(step.operation, step.arguments)
            placed(place, step)
            return answer

        difference = take(FsModel(), steps, taking)
        what = f"wrong answers of {name}, begun by {first}"
        stage.recorder.observe(what, got=wrong_of(difference), wanted=[], of=len(steps))
        total += len(steps)
    return total


SCENARIOS = (
    *(
        Scenario(
            name=f"cephfs.across[mds={mds},primary={primary}]",
            goal="Clients of both architectures see the same file system, whatever the MDS and the primary OSDs are.",
            method="Two clients work alternately on the same trees and check what the other did: contents, names, "
            "attributes, links, renames, locks, quotas, snapshots. Compares every answer with a model.",
            run=partial(run, mds=mds, primary=primary),
            check="witnessed",
            sees=tuple(f"wrong answers of {topic}, begun by {arch}" for topic in TOPICS for arch in Arch),
            topology=PAIR,
            expects=EXPECTED,
        )
        for mds, primary in product(Arch, Arch)
    ),
)
