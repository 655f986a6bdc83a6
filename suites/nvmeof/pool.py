"""Settings of the pool behind a gateway: a number of PGs that stays as it was set, and data that is spread by it."""

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.suites.nvmeof.stand import POOL

FEW, MANY = 4, 64
ONE_COPY = PoolKind("replicated", 1)
"""As in the paper. With as many copies as OSDs every OSD has every PG, however many there are."""
OPTIONS = {"pg_autoscale_mode": "off", "bulk": "true", "target_size_ratio": "0.9"}
MOST_UNEVEN = 1.5
"""A third of 64 PGs, and nearly three standard deviations of a binomial distribution: 21 + 11, over the mean of 21."""


UNJUDGED = Bound("noted: few PGs fall as they fall", basis=Basis.SHAPE)


def spread(stage: Stage) -> None:
    """Make the pool twice; look at what the monitor has of its settings, and at where its PGs are."""
    cluster, recorder = stage.cluster, stage.recorder
    for pg_num in (FEW, MANY):
        with pools.pool(cluster, POOL, ONE_COPY, pg_num=pg_num, options=OPTIONS):
            has = {key: told(cluster, key) for key in (*OPTIONS, "pg_num")}
            wanted = {"pg_autoscale_mode": "off", "bulk": True, "target_size_ratio": 0.9, "pg_num": pg_num}
            recorder.observe(f"settings of a pool of {pg_num} PGs", got=has, wanted=wanted)
            leaders = list(pools.primaries(cluster, POOL).values())
            osds = cluster.osd_ids()
            recorder.observe(f"PGs of {pg_num} that have a place", got=len(leaders), wanted=pg_num)
            fullest = max(leaders.count(osd) for osd in osds) * len(osds) / len(leaders)
            recorder.figure(f"{pg_num} PGs: the fullest OSD's over the mean", fullest, "", UNJUDGED)
    recorder.observe(f"whether {MANY} PGs are spread", got=fullest <= MOST_UNEVEN, wanted=True, fullest=fullest)


def told(cluster: Cluster, key: str) -> object:
    """A setting of the pool, as the monitor says it."""
    return cluster.client.mon("osd pool get", pool=POOL, var=key)[key]


SCENARIOS = (
    Scenario(
        name="nvmeof.pool",
        goal="The paper's settings of the pool hold, and many PGs spread it over the OSDs where few do not.",
        method=f"Makes a pool of {FEW} and one of {MANY} PGs, in bulk, without the autoscaler; looks where PGs are.",
        run=spread,
    ),
)
