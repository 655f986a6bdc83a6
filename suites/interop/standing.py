"""Properties of a whole cluster: the host of every replica, and equal copies after a restart."""

from collections.abc import Mapping, Sequence
from functools import partial

from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import EC_2_1
from cephlab.lab.faults.scrub import blamed, deep_scrub_all
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.matrix import arch_of
from cephlab.suites.interop.scrub import PG_NUM, filled
from cephlab.suites.machines import machine_of_osds

DOMAIN_PGS = 32  # a rule that ignores hosts puts 3 of 5 PGs twice on a host of two OSDs; P(none of 32) is 1e-13
_SHOWN = 3


def failure_domain(stage: Stage) -> None:
    """Make pools with default rules, and observe where the PGs of every pool are."""
    cluster = stage.cluster
    with pools.pool(cluster, "copies", pg_num=DOMAIN_PGS), pools.pool(cluster, "shards", EC_2_1, pg_num=DOMAIN_PGS):
        # Use the lab's own hosts, because the hosts of a wrong CRUSH map would hide the fault.
        hosts = machine_of_osds(cluster)
        pgs = [entry for name in pool_names(cluster) for entry in pools.pgs_of(cluster, name)]
    crowded = max(sum(1 for host in hosts.values() if host == name) for name in set(hosts.values()))
    stage.recorder.witness("OSDs on one host", got=crowded, least=2)
    stage.recorder.witness("PGs checked", got=len(pgs), least=2 * DOMAIN_PGS)
    shared = shared_hosts(pgs, hosts)
    stage.recorder.observe("PGs with two replicas on one host", got=len(shared), wanted=0)
    stage.recorder.observe("the first of them", got=shared[:_SHOWN], wanted=[], of=len(pgs))


def shared_hosts(pgs: Sequence[Pg], hosts: Mapping[int, str]) -> list[str]:
    """Descriptions of the PGs with two replicas on one host."""
    lines = []
    for entry in pgs:
        used = [hosts[osd] for osd in entry.acting if osd in hosts]
        twice = sorted({host for host in used if used.count(host) > 1})
        if twice:
            lines.append(f"PG {entry.pgid} on OSDs {list(entry.acting)}: twice on host {', '.join(twice)}")
    return lines


def restarted(stage: Stage, on: Arch) -> None:
    """Fill a pool, restart an OSD of an architecture, and deep-scrub all pools with the other architecture leading."""
    cluster = stage.cluster
    with pools.pool(cluster, "restarted", pg_num=PG_NUM) as pool, pools.led_by(cluster, on.other):
        mirror = filled(stage, pool)
        acting = pools.locate(cluster, pool, "o0")["acting"]
        victim = next(osd for osd in cluster.osd_ids(on) if osd in acting)
        cluster.stop(f"osd.{victim}")
        cluster.start(f"osd.{victim}")
        pools.wait_clean(cluster)
        looked_at = [pgid for pgids in deep_scrub_all(cluster, pool_names(cluster)).values() for pgid in pgids]
        stage.recorder.witness("PGs deep-scrubbed", got=len(looked_at), least=PG_NUM)
        wrong = [
            f"{name} on osd.{osd} ({arch_of(cluster, int(osd))}): {', '.join(errors)}"
            for pgid in looked_at
            for name, copies in blamed(cluster, pgid).items()
            for osd, errors in copies.items()
        ]
        what = f"copies that deep-scrub finds wrong after osd.{victim} ({on}) was restarted"
        stage.recorder.observe(what, got=wrong, wanted=[], of=len(looked_at))
        if not wrong:
            mirror.verify(cluster.client, stage.recorder, f"after osd.{victim} was restarted")


def pool_names(cluster: Cluster) -> list[str]:
    return [str(pool["pool_name"]) for pool in cluster.client.mon("osd dump")["pools"]]


FAILURE_DOMAIN = Scenario(
    name="interop.failure-domain",
    goal="No PG has two replicas on one host, whichever architecture made its rule.",
    method="Makes replicated and erasure-coded pools on hosts with two OSDs each; compares the hosts of a PG's OSDs.",
    run=failure_domain,
    check="witnessed",
    tier=Tier.FULL,  # the quick tier's clusters have one OSD per host, where no rule can fail
    topology=Topology(osds_per_node=2),
)


def restart_scenario(on: Arch) -> Scenario:
    return Scenario(
        name=f"interop.scrub-restarted[on={on}]",
        goal=f"A restarted OSD of {on} computes the same checksums of its data as the other OSDs.",
        method=f"Fills a pool, restarts an OSD of {on}, and deep-scrubs every PG of every pool, led by {on.other}.",
        run=partial(restarted, on=on),
        check="witnessed",
        tier=Tier.FULL,  # an emulated OSD takes 15 s to restart
    )


SCENARIOS: tuple[Scenario, ...] = (FAILURE_DOMAIN, *(restart_scenario(arch) for arch in Arch))
