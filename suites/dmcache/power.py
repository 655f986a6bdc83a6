"""The client loses power during transactions: everything committed survives, with every kind of cache."""

from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandFailed
from cephlab.lab.blockstack import dmcache
from cephlab.lab.blockstack.dmcache import CacheDevice, DmCacheMode, WriteCache
from cephlab.lab.blockstack.mapper import Mapper
from cephlab.lab.blockstack.mariadb import DatabaseDown
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.workloads import sysbench
from cephlab.lab.workloads.committed import Ledger
from cephlab.suites.dmcache.oltp import job
from cephlab.suites.dmcache.stand import (
    METADATA,
    NEEDS_CUT,
    NODE,
    STORAGE,
    WRITECACHE,
    Stand,
    scenario_on_stand,
    standing,
)

CLIENTS = 4
"""Clients that commit from another machine, one transaction at a time each."""
COMMITTED = (100, 200)
"""Transactions acknowledged before the power goes; the seed decides how many."""
COMMITTED_S = 120.0
LOAD_S = 300
"""Longer than the scenario: the power cut ends the load."""
RECOVERY = "crash recovery"
"""Words in InnoDB's log when it starts after an unclean shutdown."""


def cut_power(stage: Stage, kind: str) -> None:
    """Cut the client's power under load, start it again, and compare with the ledger that another machine kept."""
    recorder = stage.recorder
    with standing(stage) as stand:
        cache = stand.put(kind)
        stand.new_database()
        wanted = job(stand, stage, runtime_s=LOAD_S)
        sysbench.prepare(stand.host, wanted)
        ledger = new_ledger(stand)
        stand.impose()
        _until_cut(stage, stand, cache, ledger)
        own(stage.cluster).lab.start_node(NODE)
        recorder.step("power back")
        stand.attach()
        if isinstance(cache, CacheDevice):
            complaint = dmcache.check_metadata(stand.host, Mapper.path(METADATA))
            recorder.observe("what cache_check finds after the power cut", got=complaint or "nothing", wanted="nothing")
        stand.put(kind, fresh=False)
        if recovered(stand, recorder):
            ledger.note(recorder, ledger.read_back())
            recorder.observe("CHECK TABLE after the power cut", got=stand.check_table(), wanted="OK")


def new_ledger(stand: Stand) -> Ledger:
    """A ledger of a new database, kept by clients on another machine."""
    ledger = Ledger(stand.database, [stand.cluster.hosts[STORAGE]] * CLIENTS)
    ledger.prepare()
    return ledger


def wait_committed(ledger: Ledger, enough: int) -> None:
    """Wait until so many transactions of a ledger are acknowledged."""
    clock.wait(
        lambda: len(ledger.acknowledged),
        lambda count: count >= enough,
        what=f"{enough} committed transactions",
        timeout_s=COMMITTED_S,
    )


def _until_cut(stage: Stage, stand: Stand, cache: CacheDevice | WriteCache, ledger: Ledger) -> None:
    """Load the database from its own machine and from another until enough is committed; then cut the power."""
    recorder, host = stage.recorder, stand.host
    enough = stage.rng.randint(*COMMITTED)
    log = host.directory / "log/sysbench.log"
    host.spawn(job(stand, stage, runtime_s=LOAD_S).argv("run"), log=log)
    with ledger.running():
        wait_committed(ledger, enough)
        status = cache.status()
        samples = sysbench.samples(host.read(log).decode())
        own(stage.cluster).lab.kill_node(NODE)
        recorder.step("power cut")
    stand.cache = None
    recorder.witness("acknowledged transactions", got=len(ledger.acknowledged), least=enough)
    recorder.witness("transactions of sysbench in the same time", got=sum(sample.tps for sample in samples), least=1)
    if not (isinstance(cache, CacheDevice) and cache.mode is DmCacheMode.WRITETHROUGH):
        recorder.witness("blocks that only the cache held", got=status.dirty, least=1)


def recovered(stand: Stand, recorder: Recorder) -> bool:
    """As `came_up`; also records that InnoDB noticed the power cut."""
    if not came_up(stand, recorder, "the database after the power cut"):
        return False
    recorder.witness("InnoDB's recovery, 1 for yes", got=int(RECOVERY in stand.database.words()), least=1)
    return True


def came_up(stand: Stand, recorder: Recorder, what: str) -> bool:
    """Whether the file system and the server come up, which is recorded too."""
    state = "up"
    try:
        stand.open_database()
    except (CommandFailed, DatabaseDown) as error:
        state = f"{error.what}: {error.detail[-3000:]}"
    recorder.observe(what, got=state, wanted="up")
    return state == "up"


SCENARIOS = tuple(
    scenario_on_stand(
        name=f"dmcache.power-cut[{kind}]",
        goal=f"With a {kind} cache, a power cut during transactions loses no acknowledged one.",
        method="Kills the client under sysbench, with a ledger on another machine; checks cache, recovery and ledger.",
        run=partial(cut_power, kind=kind),
        check="witnessed",
        tier=Tier.QUICK if kind == DmCacheMode.WRITEBACK else Tier.FULL,
        needs=NEEDS_CUT,
    )
    for kind in (DmCacheMode.WRITEBACK, DmCacheMode.WRITETHROUGH, WRITECACHE)
)
