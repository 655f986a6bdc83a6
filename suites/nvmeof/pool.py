"""Pool settings behind a gateway: the number of PGs stays as set, and many PGs spread the data over the OSDs."""

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.suites.nvmeof.stand import POOL

FEW, MANY = 4, 64
ONE_COPY = PoolKind("replicated", 1)
"""As in the paper. With as many copies as OSDs, every OSD would have every PG, however many there are."""
OPTIONS = {"pg_autoscale_mode": "off", "bulk": "true", "target_size_ratio": "0.9"}
LEAST_OSDS = 3
MOST_UNEVEN = 1.5
"""(21 + 11) / 21: of 64 PGs an OSD of three leads 21 on average, and 11 is nearly three standard deviations
(binomial distribution)."""
SPREAD = {
    FEW: Bound("recorded only: few PGs are spread by chance", basis=Basis.NOTED),
    MANY: Bound("nearly three standard deviations, with three OSDs", most=MOST_UNEVEN, basis=Basis.CORRECTNESS),
}
"""Number of PGs -> the bound of what the fullest OSD has over the mean."""


def spread(stage: Stage) -> None:
    """Create the pool twice; read its settings back from the monitor, and look where its PGs are."""
    cluster, recorder = stage.cluster, stage.recorder
    for pg_num, bound in SPREAD.items():
        with pools.pool(cluster, POOL, ONE_COPY, pg_num=pg_num, options=OPTIONS):
            has = {key: told(cluster, key) for key in (*OPTIONS, "pg_num")}
            wanted = {"pg_autoscale_mode": "off", "bulk": True, "target_size_ratio": 0.9, "pg_num": pg_num}
            recorder.observe(f"settings of a pool of {pg_num} PGs", got=has, wanted=wanted)
            leaders = list(pools.primaries(cluster, POOL).values())
            osds = cluster.osd_ids()
            recorder.witness(f"OSDs that {pg_num} PGs are spread over", got=len(osds), least=LEAST_OSDS)
            recorder.observe(f"PGs of {pg_num} that have a primary OSD", got=len(leaders), wanted=pg_num)
            fullest = max(leaders.count(osd) for osd in osds) * len(osds) / len(leaders)
            recorder.figure(f"{pg_num} PGs: the fullest OSD's over the mean", fullest, "", bound)


def told(cluster: Cluster, key: str) -> object:
    """A setting of the pool, as the monitor reports it."""
    return cluster.client.mon("osd pool get", pool=POOL, var=key)[key]


SCENARIOS = (
    Scenario(
        name="nvmeof.pool",
        goal="The paper's pool settings stay as set, and with many PGs the pool is spread evenly over the OSDs.",
        method=f"Creates a bulk pool of {FEW}, then of {MANY} PGs, without autoscaler; reads settings and primaries.",
        run=spread,
        topology=ANY_ARCH,
        check="figures",
    ),
)
