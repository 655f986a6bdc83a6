"""A cache that is flushed and detached has written every block to its origin."""

from functools import partial

from cephlab.lab.blockstack import devices, dmcache
from cephlab.lab.blockstack.dmcache import CacheDevice, CacheStatus, DmCacheMode
from cephlab.lab.blockstack.mapper import Mapper
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.workloads import sysbench
from cephlab.suites.dmcache.oltp import ROWS, job, measured
from cephlab.suites.dmcache.power import came_up
from cephlab.suites.dmcache.stand import METADATA, WRITECACHE, scenario_on_stand, standing

SECONDS = 8


def flush_and_detach(stage: Stage, kind: str) -> None:
    """Fill a cache with transactions, flush and detach it, and compare the image with what the cache showed."""
    recorder = stage.recorder
    with standing(stage) as stand:
        cache = stand.put(kind)
        stand.new_database()
        wanted = job(stand, stage, runtime_s=SECONDS)
        sysbench.prepare(stand.host, wanted)
        if isinstance(cache, CacheDevice):
            cache.keep_dirty()
        stand.impose()
        measured(stand, stage, kind, wanted)
        stand.impose(slow=False)
        stand.close_database()
        above = devices.digest(stand.host, stand.device)
        behind = devices.digest(stand.host, stand.image_device) != above
        status = cache.status()
        recorder.witness("dirty blocks before the flush", got=status.dirty, least=1)
        if isinstance(status, CacheStatus):
            recorder.witness("blocks promoted", got=status.promotions, least=1)
        recorder.witness("the image lacks what the cache holds, 1 for yes", got=int(behind), least=1)
        flushed = cache.detach()
        stand.cache = None
        recorder.observe("dirty blocks after the flush", got=flushed.dirty, wanted=0)
        alone = devices.digest(stand.host, stand.image_device)
        recorder.observe("the image, without its cache", got=alone, wanted=above)
        if isinstance(cache, CacheDevice):
            complaint = dmcache.check_metadata(stand.host, Mapper.path(METADATA))
            recorder.observe("what cache_check finds", got=complaint or "nothing", wanted="nothing")
        if came_up(stand, recorder, "the database on the image alone"):
            recorder.observe("CHECK TABLE on the image alone", got=stand.check_table(), wanted="OK")
            rows = stand.database.query("SELECT COUNT(*) FROM sbtest.sbtest1")
            recorder.observe("rows", got=rows, wanted=[[str(ROWS)]])


SCENARIOS = tuple(
    scenario_on_stand(
        name=f"dmcache.{name}-flush-detach",
        goal="After a flush and a detach, the image equals what the cache showed, byte by byte.",
        method=f"Runs sysbench on MariaDB through {what}; compares digests of the cached device and the flushed image.",
        run=partial(flush_and_detach, kind=kind),
        check="witnessed",
        tier=tier,
    )
    for name, kind, what, tier in (
        ("writeback", DmCacheMode.WRITEBACK, "dm-cache in writeback mode", Tier.QUICK),
        ("writecache", WRITECACHE, "dm-writecache", Tier.FULL),
    )
)
