"""The cache's device dies under load: writethrough loses nothing, and a loss of writeback is noticed, not hidden."""

from functools import partial

from cephlab.lab.base.errors import CommandFailed, CommandTimedOut
from cephlab.lab.blockstack import devices
from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.blockstack.mapper import SECTOR_BYTES, failing
from cephlab.lab.blockstack.mariadb import DatabaseDown
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads import sysbench
from cephlab.lab.workloads.committed import Ledger
from cephlab.suites.dmcache.oltp import job
from cephlab.suites.dmcache.power import COMMITTED, new_ledger, wait_committed
from cephlab.suites.dmcache.stand import FAST, Stand, scenario_on_stand, standing

_READ_S = 120.0


def lose_cache(stage: Stage, mode: DmCacheMode) -> None:
    """Make the cache's device fail under a ledger's commits, read through it, then use the origin alone."""
    recorder = stage.recorder
    with standing(stage) as stand:
        cache = stand.cached(mode)
        stand.new_database()
        sysbench.prepare(stand.host, job(stand, stage))
        ledger = new_ledger(stand)
        stand.impose()
        enough = stage.rng.randint(*COMMITTED)
        with ledger.running():
            wait_committed(ledger, enough)
            status = cache.status()
            stand.mapper.swap(FAST, failing(stand.cache_bytes // SECTOR_BYTES))
            recorder.step("the cache's device fails")
        stand.impose(slow=False)
        recorder.witness("acknowledged transactions", got=len(ledger.acknowledged), least=enough)
        recorder.witness("blocks in the cache", got=status.used, least=1)
        recorder.observe("reading everything through the failed cache", got=_read(stand), wanted="an I/O error")
        # As after pulling the device: the server dies, and the origin is used without its cache.
        stand.database.kill()
        devices.unmount(stand.host, stand.database.folder)
        cache.drop()
        stand.cache = None
        signs = _signs(stand, ledger)
        recorder.record("loss", dirty=status.dirty, signs=signs)
        if mode is DmCacheMode.WRITETHROUGH:
            recorder.observe("what the origin alone lacks", got=signs, wanted=[], of=len(ledger.acknowledged))
        else:
            recorder.witness("blocks that only the cache held", got=status.dirty, least=1)
            recorder.observe("the loss is reported", got=bool(signs), wanted=True)


def _read(stand: Stand) -> str:
    argv = ["dd", f"if={stand.device}", "of=/dev/null", "bs=1M", "iflag=direct"]
    result = stand.host.run(argv, check=False, timeout_s=_READ_S)
    return "an I/O error" if result.code and "Input/output error" in result.stderr else f"status {result.code}"


def _signs(stand: Stand, ledger: Ledger) -> list[str]:
    """How a user notices the loss: a file system or a server that does not come up, or missing transactions."""
    try:
        stand.open_database()
        wrong = ledger.read_back()
        checked = stand.check_table()
    except (CommandFailed, CommandTimedOut, DatabaseDown) as error:
        return [f"{error.what}: {error.detail[-400:]}"]
    losses = {"lost": wrong.lost, "half": wrong.half, "made up": wrong.made_up}
    signs = [f"{len(transactions)} {what}" for what, transactions in losses.items() if transactions]
    return signs + ([] if checked == "OK" else [f"CHECK TABLE: {checked}"])


SCENARIOS = tuple(
    scenario_on_stand(
        name=f"dmcache.cache-lost[{mode}]",
        goal=goal,
        method="Makes the cache's device fail under commits that another machine records; then uses the origin alone.",
        run=partial(lose_cache, mode=mode),
        check="witnessed",
    )
    for mode, goal in (
        (DmCacheMode.WRITETHROUGH, "When a writethrough cache loses its device, no acknowledged transaction is lost."),
        (DmCacheMode.WRITEBACK, "When a writeback cache loses its device, lost transactions are reported, not hidden."),
    )
)
