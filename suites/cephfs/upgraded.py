"""Upgrade of a cluster with CephFS under a file load; clients of both releases then see the same tree."""

from functools import partial

from cephlab.lab.ceph.daemon import STOP_S
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import MDS
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.cephfs.across import take_topics
from cephlab.suites.cephfs.failover import limit_gap, load_of
from cephlab.suites.cephfs.model import FsModel
from cephlab.suites.cephfs.scrub import scrubbed
from cephlab.suites.cephfs.stand import EXPECTED, wait_active
from cephlab.suites.cephfs.topics import TOPICS, looks
from cephlab.suites.interop.walks.live import lines
from cephlab.suites.interop.walks.scenarios import Sides, clients, sides_on
from cephlab.suites.interop.walks.walk import Step, fitting, take
from cephlab.suites.limits import copying, no_errors, wait_until_noticed
from cephlab.suites.migration.trial import client_nodes
from cephlab.suites.upgrade import rolling

Trees = dict[str, list[Step]]
"""A directory -> the steps that made what is below it."""


def upgraded(stage: Stage, release: str) -> None:
    """Make trees, upgrade every daemon under a file load, and read the trees through clients of the newer release."""
    cluster, recorder = stage.cluster, stage.recorder
    no_errors(recorder, "an upgrade must not make CephFS refuse a client")
    limit_gap(recorder, cluster, stop_s=STOP_S)
    wait_active(cluster)
    trees = made(stage)
    load = load_of(stage, "upgrade", client_nodes(cluster))
    wait_until_noticed(stage, rolling.PEERING_S, copying(stage, load.load.most_bytes))
    load.prepare()
    with load.running():
        targets = rolling.one_release(stage, release, load)
    load.verify()
    cluster.wait_healthy()
    settings = {"name": cluster.client_name}
    newer = sides_on({arch: rolling.target_of(targets, arch) for arch in Arch}, settings)
    looked_at(stage, newer, trees, release)
    older = clients(cluster, settings)
    for arch in Arch:
        both = {f"older on {arch}": older[arch.value], f"newer on {arch.other}": newer[arch.other.value]}
        with lines("cephfs", both, cluster.patience) as sides:
            first, second = both if arch is Arch.X86_64 else reversed(both)
            take_topics(stage, sides, first, second)
    scrubbed(stage)


def made(stage: Stage) -> Trees:
    """Run the steps of each topic through clients of the older release, and keep the trees."""
    cluster = stage.cluster
    trees: Trees = {}
    with lines("cephfs", clients(cluster, {"name": cluster.client_name}), cluster.patience) as sides:
        for name, topic in TOPICS.items():
            first, second = sides
            place, steps = f"before-{name}", list(topic(first, second, stage.rng))
            for side in sides.values():
                side.begin(place)
            difference = take(FsModel(), steps, lambda step: sides[step.side].ask(step.operation, step.arguments))
            wrong = [] if difference is None else [difference.last.step.operation, difference.got]
            stage.recorder.observe(f"wrong answers of {name} before the upgrade", got=wrong, wanted=[], of=len(steps))
            trees[place] = steps
    return trees


def looked_at(stage: Stage, newer: Sides, trees: Trees, release: str) -> None:
    """Observe that clients of the newer release see each tree as the older ones left it."""
    with lines("cephfs", newer, stage.cluster.patience) as sides:
        for place, steps in trees.items():
            last = looks(next(iter(sides)))  # every side must see the same
            wanted = fitting(FsModel(), [*steps, last])[-1].answer
            for arch, side in sides.items():
                side.begin(place)
                got = side.ask(last.operation, last.arguments)
                wrong = sorted(path for path in {*got, *wanted} if got.get(path) != wanted.get(path))
                what = f"paths of {place} that {release} on {arch} finds changed"
                stage.recorder.observe(what, got=wrong, wanted=[], of=len(wanted))


SCENARIOS = (
    Scenario(
        name="cephfs.upgrade[from=pacific,to=reef]",
        goal="CephFS goes from pacific to reef without errors or lost files, and clients of both see the same tree.",
        method="Upgrades every daemon in the documented order, metadata servers last, while files are written, synced "
        "and renamed; reads back; newer clients read older trees, then both work on new ones; scrubs.",
        run=partial(upgraded, release="reef"),
        check="recorded",
        tier=Tier.FULL,
        sees=("paths of .* that reef on .* finds changed", "wrong answers of .*"),
        topology=Topology(mons=3, clients=True, services=(("n0", (MDS.kind,)), ("n2", (MDS.kind,))), release="pacific"),
        needs=frozenset({Capability.SECOND_IMAGE, Capability.FOREIGN_ARCH}),
        spoils=True,
        expects={**EXPECTED, **rolling.EXPECTED},
    ),
)
