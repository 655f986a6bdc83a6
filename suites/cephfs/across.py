"""Two clients see the same CephFS tree, whatever the architectures of clients, MDS and primary OSDs."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import permutations, product
from random import Random
from typing import Any

from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.services.mds import DATA_POOL, META_POOL
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs.model import NAME_BYTES, FsModel
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, requests, served_by, wait_active
from cephlab.suites.cephfs.topics import NAMES, TOPICS, Topic
from cephlab.suites.interop import edges
from cephlab.suites.interop.matrix import observe_primaries
from cephlab.suites.interop.walks.live import Line, lines, wrong_of
from cephlab.suites.interop.walks.scenarios import clients, take_walk
from cephlab.suites.interop.walks.walk import Refused, Step, Unfit, take


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


class WalkModel(FsModel):
    """The model for random walks, without the steps that libcephfs is known to get wrong, as the suite `defects` shows.

    libcephfs hangs after a rename that must be refused (`libcephfs-rename-waits`) and on a read of a directory
    (`libcephfs-directory-waits`). It truncates directories (`libcephfs-directory-truncated`). It does not find a file
    of which a rename replaced another name (`libcephfs-rename-hides`), nor what was renamed onto its own name
    (`libcephfs-rename-forgets`). A write to a directory is refused at open, so walks include it. The fixed steps of the
    topics include refused renames, but never use those names again.
    """

    def do_read(self, path: str, offset: int, size: int) -> str:
        if self.at(path).entries is not None:
            raise Unfit
        return super().do_read(path, offset, size)

    def do_truncate(self, path: str, size: int) -> None:
        if self.at(path).entries is not None:
            raise Unfit
        super().do_truncate(path, size)

    def do_rename(self, path: str, to: str) -> None:
        try:
            directory, name = self.place(to)
            replaced = directory.within.get(name)
            if replaced is not None and (replaced.names > 1 or replaced is self.at(path)):
                raise Unfit
            super().do_rename(path, to)
        except Refused:
            raise Unfit from None


def walked(stage: Stage) -> None:
    """Run random steps, each through a client of a random architecture."""
    cluster = stage.cluster
    wait_active(cluster)
    sides = clients(cluster, {"name": cluster.client_name})
    take_walk(stage, "cephfs", lambda rng: WalkModel(walk_names(rng)), sides, stage.tier)


def walk_names(rng: Random) -> list[str]:
    """Names for a walk, of any bytes that a name may have. None begins with a dot, so none is the snapshot folder."""
    return [name for name in edges.texts(rng, NAMES, NAME_BYTES, but="/\0") if not name.startswith(".")]


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
    Scenario(
        name="cephfs.walk",
        goal="A tree holds what was put there last, whichever architecture wrote it and whichever one reads it.",
        method="Runs random steps, each through a random one of two clients; compares every answer with a model, and "
        "from time to time the whole tree; shortens a walk that fails.",
        run=walked,
        check="witnessed",
        tier=Tier.FULL,
        sees=("operations of .* through .*", "wrong answers on a walk over .*|walk over .*"),
        topology=PAIR,
        expects=EXPECTED,
    ),
)
