"""Limits that the model sets for ratios: the gain of a cache over slow disks, and of a larger load over a smaller.

They come from the run's profile if the run's hosts are machines of that profile. Otherwise the scenario's own limit
applies.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cephlab.lab.base.errors import LabError, SpecError
from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.demand import Demand
from cephlab.suites.machines import profile_of_disks
from cephlab.tuning import gain
from cephlab.tuning.comparison import OltpRun, runs
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.gain import Gain, Wait
from cephlab.tuning.model import predict
from cephlab.tuning.profile import Profile
from cephlab.tuning.workload import Flow, Shape

NO_CACHE = "none"
"""What the history calls a run without a cache."""
BLOCK_BYTES = 4096
"""Size of a database's request. Measured: 3.7 kB for a write to InnoDB's log, and for pages that the kernel merged."""


def of_tier(stage: Stage, shape: Shape, hits: float, here: Bound) -> Bound:
    """The limit of a tier's gain over its base. hits: share of operations that hit; here: limit without a profile."""
    profile = profile_of_disks(stage)
    if profile is None:
        return here
    try:
        slow, fast = (gain.on_cluster(_demands(stage), disks, shape) for disks in gain.classes_of(profile))
        expected = gain.of_cache(slow, fast, hits)
    except LabError as error:
        return _none(error)
    return _bound(profile, expected, f"when {hits:.3g} of {shape.operation} hit")


@dataclass(frozen=True)
class OverCache:
    """A cache under a database. name: in the history; keeps: the requests that it answers alone.

    on_cluster: True for a cache tier, False for a disk of the client.
    """

    name: str
    keeps: frozenset[Flow] = frozenset(Flow)
    on_cluster: bool = False


_KEEPS = {DmCacheMode.WRITEBACK: frozenset(Flow), DmCacheMode.WRITETHROUGH: frozenset({Flow.READ})}


def of_mode(mode: DmCacheMode) -> OverCache:
    """dm-cache in one mode: with writethrough, writes wait for both devices; passthrough caches nothing."""
    return OverCache(mode.value, _KEEPS.get(mode, frozenset()))


def of_database(stage: Stage, over: OverCache, threads: int, here: Bound) -> Bound:
    """The limit of a database's gain from a cache, from this scenario's runs with and without it; for one data copy.

    A cache that keeps no writes must not gain more than its reads can give if all of them hit: with a higher gain, its
    writes cannot have waited for the slow disks.
    """
    profile = profile_of_disks(stage)
    if profile is None:
        return here
    of_threads = [run for run in runs(stage.recorder.events()) if run.threads == threads]
    writes_wait = Flow.WRITE not in over.keeps
    try:
        hits = 1.0 if writes_wait else _hits(of_threads, over)
        plain = _without(of_threads)
        slow, fast = _waits(_demands(stage), profile, plain, over)
        expected = gain.of_cache(slow, fast, hits, plain.took_s)
    except LabError as error:
        return _none(error)
    limit = _bound(profile, expected, f"when {hits:.3g} of {plain} hit {over.name}")
    return replace(limit, least=None, most=expected.high) if writes_wait else limit


@dataclass(frozen=True)
class _Plain:
    """One transaction without a cache, by several threads. took_s: seconds over the transactions of all threads."""

    took_s: float
    reads: float
    writes: float
    threads: int

    def __str__(self) -> str:
        return f"{self.reads:.3g} reads and {self.writes:.3g} writes per transaction"


def _without(of_threads: Sequence[OltpRun]) -> _Plain:
    plain = [run for run in of_threads if run.cache == NO_CACHE and any(run.tps)]
    if not any(run.reads + run.writes for run in plain):
        raise SpecError("the model predicts from requests, but no request of a transaction reached the image")
    rates = [rate for run in plain for rate in run.tps]
    reads, writes = (sum(counts) / len(plain) for counts in ([r.reads for r in plain], [r.writes for r in plain]))
    return _Plain(len(rates) / sum(rates), reads, writes, plain[0].threads)


def _hits(of_threads: Sequence[OltpRun], over: OverCache) -> float:
    """Share of the requests that hit, over the seconds of all runs with the cache."""
    shares = [share for run in of_threads if run.cache == over.name for share in run.hits]
    if not shares:
        raise SpecError(f"no run recorded how many requests hit {over.name}")
    return sum(shares) / len(shares)


def _waits(demands: Sequence[Demand], profile: Profile, plain: _Plain, over: OverCache) -> tuple[Wait, Wait]:
    """How long a transaction waits for its requests: with all on the slow disks, and with the cache."""
    slow_disks, fast_disks = gain.classes_of(profile) if over.on_cluster else (profile, profile)
    slow, fast = [], []
    for kind, count in (("randread", plain.reads), ("randwrite", plain.writes)):
        if not count:
            continue
        shape = Shape(kind, BLOCK_BYTES, 1, plain.threads, replicas=1)
        slow.append(gain.on_cluster(demands, slow_disks, shape).times(count))
        if shape.flow not in over.keeps:
            fast.append(slow[-1])
        elif over.on_cluster:
            fast.append(gain.on_cluster(demands, fast_disks, shape).times(count))
        else:
            fast.append(gain.at_client(profile, shape).times(count))
    return gain.in_turn(slow), gain.in_turn(fast)


def of_growth(stage: Stage, less: Shape, more: Shape, here: Bound) -> Bound:
    """The limit of the rate with more clients or more in flight, divided by that with less.

    It is the model's, but at least the scenario's own, or 1: no queue does less with more in flight, whatever the
    model's error. Without a prediction the scenario's own applies.
    """
    profile = profile_of_disks(stage)
    if profile is None:
        return here
    try:
        demands = _demands(stage)
        expected = gain.of_growth(predict(demands, profile, less), predict(demands, profile, more))
    except LabError as error:
        return replace(here, why=f"{here.why}; the model has no limit: {error.what}")
    limit = _bound(profile, expected, f"{more}; {here.why}")
    return replace(limit, least=max(expected.low, here.least or 1.0))


def _demands(stage: Stage) -> tuple[Demand, ...]:
    return find_demands(stage.cluster.run.home.demands)[0]


def _bound(profile: Profile, expected: Gain, load: str) -> Bound:
    interval = f"{expected.low:.3g} to {expected.high:.3g}"
    why = f"{profile.name} should gain a factor of {expected.value:.3g} ({interval}), {load}"
    return Bound(why, least=expected.low, derivation=expected.derivation.lines(), basis=Basis.PROFILE)


def _none(error: LabError) -> Bound:
    return Bound(f"no limit: {error.what}", basis=Basis.NOTED)
