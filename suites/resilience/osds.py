"""OSDs and machines that fail under a load of small or large objects, in replicated or erasure-coded 4+2 pools."""

from contextlib import ExitStack
from functools import partial
from itertools import combinations

from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.faults import Layout, inflict, layout_of
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.faults.nodes import KillNode, strikeable
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.workloads.recorded import Kind
from cephlab.suites.limits import Copying, until_noticed
from cephlab.suites.resilience.trial import LARGE, MIXED, SMALL, Data, goes_on, linger, loaded, scenario_under_load

EC_4_2 = PoolKind("ec42", 6, k=4, m=2)
SIX = Topology(native=4, foreign=2, mons=3, lone_client=True, any_arch=True)
"""As many machines as EC 4+2 has shards, so that there is no spare, as in the ten-billion-object paper. Two are of the
other architecture, so that a failure may hit either architecture or both."""

FOREIGN_MAJORITY = Topology(native=1, foreign=2, mons=3, lone_client=True)
"""Two of three machines are of the other architecture, so that it has the majority of the monitors too."""

EC_PGS = 8
HOLD_S = (4.0, 8.0)
"""Long enough that every worker has met the failed part, so that what a load does then, it does without that part."""
PEERING_S = 20.0
"""Time for peering on a busy machine and the first operations after it, before patience."""

SIZES = {"small": SMALL, "large": LARGE}
BLOCKS: Kind = "blocks"
"""A load of blocks of 4 KiB in an RBD image instead of whole objects."""


def osd_failure(stage: Stage, sizes: tuple[int, ...], of: Kind = "objects") -> None:
    """Kill one OSD after another while clients work."""
    cluster, data = stage.cluster, Data(of=of, sizes=sizes)
    limit_stall(stage, data.copied(stage))
    with loaded(stage, data) as load:
        for osd in stage.rng.sample(cluster.osd_ids(), len(cluster.osd_ids())):
            with inflict(KillDaemon(f"osd.{osd}"), cluster, stage.recorder):
                linger(stage.rng, *HOLD_S)
                goes_on(load, f"while osd.{osd} is down")
            cluster.wait_healthy()


def node_failure(stage: Stage, nodes: int, sizes: tuple[int, ...]) -> None:
    """Kill one or two of the six machines of an erasure-coded pool that should survive the loss of two."""
    cluster = stage.cluster
    victims = stage.rng.choice(struck_with_quorum(layout_of(cluster), nodes))
    # With Ceph's default min_size, k+1, the pool would not serve with two machines down; the paper's claim is for k.
    options = {"min_size": str(EC_4_2.k)}
    data = Data(EC_4_2, sizes=sizes, options=options, pg_num=EC_PGS)
    limit_stall(stage, data.copied(stage))
    with loaded(stage, data) as load, ExitStack() as stack:
        for node in victims:
            stack.enter_context(inflict(KillNode(node), cluster, stage.recorder))
        linger(stage.rng, *HOLD_S)
        goes_on(load, f"while {' and '.join(victims)} are down")


def struck_with_quorum(layout: Layout, count: int) -> list[tuple[str, ...]]:
    """The sets of so many machines that may fail. Without a quorum nobody notices that OSDs are down: clients wait."""
    mons = {layout.node_of(name) for name in layout.daemons("mon")}
    chosen = combinations(strikeable(layout), count)
    return [nodes for nodes in chosen if 2 * len(mons.difference(nodes)) > len(mons)]


def limit_stall(stage: Stage, copied: Copying) -> None:
    """Limit how long clients may wait: the gap of all together, and the wait of each, which may be stuck alone."""
    bound = until_noticed(stage.cluster, PEERING_S, copied, mon_lost=True)
    for metric in ("longest_gap_s", "longest_wait_s"):
        stage.recorder.limit(metric, bound.most or 0.0, "s", bound.why, basis=copied.basis)


SCENARIOS = (
    *(
        scenario_under_load(
            name=f"resilience.osd-failure[load={size}]",
            goal=f"Clients keep working on {size} objects while one OSD after another fails.",
            method="Kills OSDs one by one, in an order from the seed, with recovery in between; reads everything back.",
            run=partial(osd_failure, sizes=SIZES[size]),
            tier=Tier.FULL,
        )
        for size in SIZES
    ),
    scenario_under_load(
        name=f"resilience.osd-failure[load={BLOCKS}]",
        goal="Clients keep working on 4 KiB blocks of an RBD image while one OSD after another fails.",
        method="Kills OSDs one by one, in an order from the seed, with recovery in between; reads every block back.",
        run=partial(osd_failure, sizes=MIXED, of=BLOCKS),
        tier=Tier.FULL,
    ),
    scenario_under_load(
        name="resilience.osd-failure[nodes=1+2]",
        goal="With most machines of the other architecture, clients keep working while one OSD after another fails.",
        method="Kills OSDs one by one, in an order from the seed, with recovery in between; reads everything back.",
        run=partial(osd_failure, sizes=MIXED),
        tier=Tier.FULL,
        topology=FOREIGN_MAJORITY,
    ),
    *(
        scenario_under_load(
            name=f"resilience.ec-node-failure[nodes={nodes},load={size}]",
            goal=f"EC 4+2 on six machines still serves {size} objects with {nodes} of them down, and loses none.",
            method="Kills the machines together under a recorded load, restarts them, reads everything back.",
            run=partial(node_failure, nodes=nodes, sizes=SIZES[size]),
            tier=Tier.QUICK if (nodes, size) == (2, "small") else Tier.FULL,
            topology=SIX,
        )
        for nodes in (1, 2)
        for size in SIZES
    ),
)
