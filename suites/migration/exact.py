"""A node is replaced without client load: OSDs copy exactly what the new map asks for."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.scrub import observe_copies_in
from cephlab.suites.migration import migrate
from cephlab.suites.migration.copied import Copied, note_copied, placed
from cephlab.suites.migration.movement import PlacedPg, least_movement
from cephlab.suites.migration.swap import PAIRS, scenario_of_migration, successor, swap_out
from cephlab.suites.migration.trial import (
    HEALTHY_S,
    OBJECT_BYTES,
    PG_NUM,
    STILL,
    Migration,
    fill,
    options_of,
    placement,
)


@dataclass(kw_only=True)
class QuietMigration(Migration):
    """A running migration without client load. all_before: the PGs of all pools before the present leg."""

    copied: Copied
    all_before: list[PlacedPg]

    def disturb(self, replaced: str | None = None) -> None:
        if replaced is not None:
            self.copied.leave(migrate.osds_on(self.cluster, replaced))
        super().disturb(replaced)

    def recovered(self, what: str) -> None:
        """Also record what this leg copied."""
        super().recovered(what)
        self.cluster.settle()
        after = placed(self.cluster)
        least = least_movement(self.all_before, after).least_bytes
        note_copied(self.recorder, what, self.copied.bytes, least)
        self.recorder.witness(f"bytes to copy: {what}", got=least, least=OBJECT_BYTES)
        self.copied, self.all_before = Copied(self.cluster), after


@contextmanager
def quiet(stage: Stage, kind: PoolKind) -> Iterator[QuietMigration]:
    """Make and fill the pool STILL. Afterwards read everything back and compare the copies."""
    cluster = stage.cluster
    with ExitStack() as stack:
        stack.enter_context(pools.pool(cluster, STILL, kind, pg_num=PG_NUM[stage.tier], options=options_of(kind)))
        running = QuietMigration(
            stage=stage, kind=kind, still=Mirror(cluster.client, STILL), copied=Copied(cluster), all_before=[]
        )
        fill(running)
        cluster.wait_healthy(HEALTHY_S)
        running.before, running.all_before = placement(cluster, STILL, kind), placed(cluster)
        running.copied = Copied(cluster)
        yield running
        running.still.verify(cluster.client, stage.recorder, "read after the migration")
        observe_copies_in(stage, (STILL,), least=PG_NUM[stage.tier])


def run(stage: Stage, kind: PoolKind, arch: Arch) -> None:
    """Swap the last node for one of an architecture, and that one for another of the same."""
    with quiet(stage, kind) as running:
        old = migrate.osd_nodes(running.cluster)[-1]
        for leg in range(2):
            new = successor(old, arch, f"m{leg}")
            swap_out(running, old.name, new)
            old = new


SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario_of_migration(
        name=f"migration.exact[to={arch},pool={kind.name}]",
        goal="Without client load OSDs copy what the new map asks for, neither more nor less.",
        method=f"Swaps one of three nodes for one of {arch} by the paper's steps, and that for another; compares what "
        "the OSDs count with the least by the maps, each time.",
        run=partial(run, kind=kind, arch=arch),
        check="figures",
        sees=("copied_bytes.*", "bytes to copy: .*"),
    )
    for arch in Arch
    for kind in (PAIRS, REPLICATED)
)
