"""A machine with a metadata server and an OSD is replaced by one of the other architecture, under a file load."""

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.own import add_service, own, remove_service
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import MDS, want_standbys
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.cephfs.failover import load_of
from cephlab.suites.cephfs.scrub import scrubbed
from cephlab.suites.cephfs.stand import EXPECTED, wait_active
from cephlab.suites.limits import no_errors, stop_noted
from cephlab.suites.migration import migrate
from cephlab.suites.migration.swap import MOVED, successor
from cephlab.suites.migration.trial import EXPECTED as MIGRATING
from cephlab.suites.migration.trial import client_nodes
from cephlab.suites.resilience.trial import goes_on, under_way

OLD, NEW = "n1", "m0"
ONE_SERVER = Topology(native=3, foreign=0, services=((OLD, (MDS.kind,)),), clients=True)


def moved(stage: Stage) -> None:
    """Add the new machine, move the metadata server and then the data to it, and remove the old machine."""
    cluster, recorder = own(stage.cluster), stage.recorder
    no_errors(recorder, "a migration must not make CephFS refuse a client")
    wait_active(cluster)
    old = migrate.node_spec(cluster, OLD)
    new = successor(old, old.arch.other, NEW)
    load = load_of(stage, "moved", client_nodes(cluster))
    load.prepare()
    with load.running():
        under_way(load)
        migrate.add_machine(cluster, new)
        migrate.add_osds(cluster, new)
        add_service(cluster, NEW, MDS.kind)
        cluster.wait_healthy()
        recorder.step(f"{NEW} added")
        stop_noted(cluster, recorder, f"mds.{OLD}")
        remove_service(cluster, f"mds.{OLD}")
        [serving] = wait_active(cluster)
        want_standbys(cluster.client, 0)
        goes_on(load)
        recorder.step(f"{serving} serves")
        for osd in migrate.osds_on(cluster, OLD):
            cluster.client.mon("osd out", ids=[str(osd)])
            pools.wait_clean(cluster)
            migrate.give_up_osd(cluster, osd)
        migrate.power_off(cluster, OLD)
        migrate.remove_node(cluster, OLD)
        cluster.wait_healthy()
        goes_on(load)
    load.verify()
    arch = str(cluster.client.mon("mds metadata", who=serving.partition(".")[2])["arch"])
    recorder.observe("architecture that the serving metadata server reports", got=arch, wanted=new.arch.value)
    scrubbed(stage)


SCENARIOS = (
    Scenario(
        name="cephfs.migration",
        goal="A machine with the MDS and an OSD can be replaced by one of the other architecture under load.",
        method="While files are written, synced and renamed: adds the new machine with an OSD and an MDS, removes the "
        "old MDS, drains and removes the old OSD and its machine. Reads back; scrubs.",
        run=moved,
        check="recorded",
        tier=Tier.FULL,
        topology=ONE_SERVER,
        needs=frozenset({Capability.FOREIGN_ARCH}),
        spoils=True,
        expects={**EXPECTED, **MIGRATING, **MOVED},
    ),
)
