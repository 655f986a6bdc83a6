"""Limits of ratios: by the model on a profile's machines, the scenario's own elsewhere, none where it has no words."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.blockstack.dmcache import DmCacheMode
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import Basis, Bound, History
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.clusterspec import ClusterSpec
from cephlab.lab.telemetry.demand import Interval
from cephlab.suites.cachetier import oltp as tier_oltp
from cephlab.suites.cachetier.benefit import OF_THE_PAPER
from cephlab.suites.cachetier.tierspec import TieredTopology, TierLayout
from cephlab.suites.dmcache import benefit
from cephlab.suites.dmcache.benefit import GAIN, NO_LIMIT, note_gain
from cephlab.suites.gains import OverCache, of_database, of_growth, of_mode, of_tier
from cephlab.suites.hci import claims
from cephlab.tuning.profile import DiskKind, DiskRole, Disks
from cephlab.tuning.workload import Shape
from tests.model_parts import as_file, disks, machine, profile
from tests.tuning.test_comparison import oltp

HDD = disks("hdd", kind=DiskKind.HDD, count=7, read_iops=120, write_iops=120, sync_latency=0.0085)
NVME = disks("nvme", read_iops=500_000, write_iops=200_000, sync_latency=20e-6, read_latency=90e-6)
SPEC = TieredTopology(layout=TierLayout(servers=3)).spec("reef")
LIMITED = TieredTopology(layout=TierLayout(servers=2, limited=True)).spec("reef")
LOAD = Shape("randwrite", 4096, 1, 4, 2)
TIER = OverCache("tier", on_cluster=True)


def as_cache(given: tuple[Disks, ...]) -> tuple[Disks, ...]:
    return tuple(replace(each, role=DiskRole.CACHE) for each in given)


def stage_on(
    tmp_path: Path, *disk: Disks, lab: str = "ssh", client: tuple[Disks, ...] = (), spec: ClusterSpec = SPEC
) -> Stage:
    """A run with a profile of these disks, on machines of a provider; `ssh` has the profile's own."""
    machines = replace(
        profile(machine(speed=5.0, disk=disk)), name="mine", clients=(machine("client", disk=as_cache(client)),)
    )
    path = tmp_path / "mine.toml"
    path.write_text(as_file(machines))
    cluster = SimpleNamespace(provider=provider(lab), run=SimpleNamespace(home=Home(tmp_path)), spec=spec)
    recorder = History().recorder("s.t")
    recorder.witness("operations", got=100, least=1)
    return cast("Stage", SimpleNamespace(cluster=cluster, profile=str(path), changes=(), recorder=recorder))


def outcome(stage: Stage, ratio: float, bound: Bound) -> Outcome:
    """Verdict on a ratio that was measured within 5 %."""
    stage.recorder.figure("gain", ratio, "times", bound, interval=(ratio * 0.95, ratio * 1.05))
    return CHECKS["figures"](stage.recorder.events()).outcome


@pytest.mark.parametrize(("ratio", "wanted"), [(8.0, Outcome.PASS), (1.5, Outcome.FAIL), (0.5, Outcome.FAIL)])
def test_a_tier_that_gains_too_little_on_the_profiles_machines_is_red(
    tmp_path: Path, ratio: float, wanted: Outcome
) -> None:
    stage = stage_on(tmp_path, HDD, NVME)
    bound = of_tier(stage, LOAD, 0.95, OF_THE_PAPER)
    assert bound.basis is Basis.PROFILE
    assert any(line.startswith("interval") for line in bound.derivation)
    assert outcome(stage, ratio, bound) is wanted


def test_the_limit_of_a_tier_follows_the_hits_and_the_disks(tmp_path: Path) -> None:
    quicker = disks("ssd", kind=DiskKind.SSD, count=7, read_iops=90_000, write_iops=60_000, sync_latency=50e-6)
    of_hits = [of_tier(stage_on(tmp_path, HDD, NVME), LOAD, hits, OF_THE_PAPER).least for hits in (0.9, 1.0)]
    of_disks = of_tier(stage_on(tmp_path, quicker, NVME), LOAD, 1.0, OF_THE_PAPER).least
    assert of_hits[0] is not None
    assert of_hits[1] is not None
    assert of_disks is not None
    assert 1.0 < of_hits[0] < of_hits[1]
    assert of_disks < of_hits[1] / 2


@pytest.mark.parametrize("where", [{"lab": "local"}, {"lab": "uml"}, {"spec": LIMITED}])
def test_on_a_labs_own_hosts_and_disks_the_shape_decides(tmp_path: Path, where: dict[str, Any]) -> None:
    stage = stage_on(tmp_path, HDD, NVME, client=(NVME,), **where)
    assert of_tier(stage, LOAD, 0.95, OF_THE_PAPER) is OF_THE_PAPER
    assert of_database(stage, TIER, 1, GAIN) is GAIN
    assert of_growth(stage, LOAD, LOAD, claims.SEVERAL) is claims.SEVERAL
    assert outcome(stage, 0.5, OF_THE_PAPER) is Outcome.FAIL


def test_without_a_profile_the_shape_decides(tmp_path: Path) -> None:
    stage = cast("Stage", SimpleNamespace(**{**vars(stage_on(tmp_path, HDD, NVME)), "profile": ""}))
    assert of_tier(stage, LOAD, 0.95, OF_THE_PAPER) is OF_THE_PAPER


def test_a_profile_without_fast_disks_has_no_limit_and_says_so(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, HDD)
    bound = of_tier(stage, LOAD, 0.95, OF_THE_PAPER)
    assert (bound.judges, bound.basis) == (False, Basis.NOTED)
    assert "no limit: mine does not have two kinds of data disks" in bound.why
    assert outcome(stage, 0.5, bound) is Outcome.PASS


PLAIN_TPS = (60.0, 62.0, 58.0)
"""One thread, without a cache: 17 ms a transaction, of which a write to the rotating disks has about 9."""
WRITES = {"rbd": {"reads": 0.0, "writes": 1.4}}
READS = {"rbd": {"reads": 1.4, "writes": 0.0}}


def run_both(stage: Stage, cache: str, traffic: dict[str, dict[str, float]] | None = None) -> None:
    """A database without a cache and with one that nine of ten requests hit."""
    for kind in ("none", cache):
        run = oltp(kind, 1, PLAIN_TPS, stand=f"{kind}, 1", traffic=traffic or WRITES)
        if kind != "none":
            for second in range(6):
                mapped = {"write_hits": 9 * second, "write_misses": second}
                seen = {"op_cache_hit": 9 * second, "tier_proxy_read": 0, "tier_proxy_write": second, "tier_evict": 0}
                looked = "tier" if kind == "tier" else "cache"
                stage.recorder.record(looked, stand=f"{kind}, 1", counters=seen, **mapped)
        stage.recorder.record(run.kind, **run.data)


@pytest.mark.parametrize("over", [TIER, of_mode(DmCacheMode.WRITEBACK)])
def test_a_database_that_gains_too_little_on_the_profiles_machines_is_red(tmp_path: Path, over: OverCache) -> None:
    stage = stage_on(tmp_path, HDD, NVME, client=(NVME,))
    run_both(stage, over.name)
    bound = of_database(stage, over, 1, GAIN)
    assert bound.basis is Basis.PROFILE
    assert bound.most is None
    assert bound.least is not None
    assert 1.2 < bound.least < 4
    times = {True: [tps * 1.05 for tps in PLAIN_TPS], False: PLAIN_TPS}
    note_gain(stage.recorder, "writeback", times, bound)
    assert CHECKS["figures"](stage.recorder.events()).outcome is Outcome.FAIL


def test_a_database_that_gains_what_its_disks_allow_passes(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, HDD, client=(NVME,))
    run_both(stage, "writeback")
    bound = of_database(stage, of_mode(DmCacheMode.WRITEBACK), 1, GAIN)
    assert outcome(stage, 5.0, bound) is Outcome.PASS


def test_a_slow_database_owes_less_to_its_disks(tmp_path: Path) -> None:
    """The same requests are a smaller share of longer transactions, so that a cache can gain less."""
    least = []
    for slower in (1.0, 10.0):
        stage = stage_on(tmp_path, HDD, client=(NVME,))
        for kind in ("none", "writeback"):
            run = oltp(kind, 1, [tps / slower for tps in PLAIN_TPS], stand=kind, traffic=WRITES)
            for second in range(6) if kind == "writeback" else ():
                stage.recorder.record("cache", stand=kind, write_hits=second, write_misses=0)
            stage.recorder.record(run.kind, **run.data)
        least.append(of_database(stage, of_mode(DmCacheMode.WRITEBACK), 1, GAIN).least or 0)
    assert least[0] > least[1] > 1


@pytest.mark.parametrize("mode", [DmCacheMode.WRITETHROUGH, DmCacheMode.PASSTHROUGH])
@pytest.mark.parametrize(("ratio", "wanted"), [(0.9, Outcome.PASS), (1.2, Outcome.PASS), (9.0, Outcome.FAIL)])
def test_a_mode_whose_writes_wait_for_the_origin_cannot_gain_by_them(
    tmp_path: Path, mode: DmCacheMode, ratio: float, wanted: Outcome
) -> None:
    stage = stage_on(tmp_path, HDD, client=(NVME,))
    run_both(stage, mode.value)
    bound = of_database(stage, of_mode(mode), 1, NO_LIMIT)
    assert bound.least is None
    assert outcome(stage, ratio, bound) is wanted


def test_reads_of_writethrough_may_gain_and_those_of_passthrough_not(tmp_path: Path) -> None:
    most = []
    for mode in (DmCacheMode.WRITETHROUGH, DmCacheMode.PASSTHROUGH):
        stage = stage_on(tmp_path, HDD, client=(NVME,))
        run_both(stage, mode.value, READS)
        most.append(of_database(stage, of_mode(mode), 1, NO_LIMIT).most or 0.0)
    assert most[0] > 9 > most[1]


@pytest.mark.parametrize(
    ("client", "traffic", "cache", "said"),
    [
        ((), WRITES, "writeback", "has a fast disk with a known"),
        ((NVME,), {"rbd": {"reads": 0, "writes": 0}}, "writeback", "no request of a transaction reached the image"),
        ((NVME,), {}, "writeback", "no request of a transaction reached the image"),
        ((NVME,), WRITES, "tier", "how many requests hit writeback"),
    ],
)
def test_a_database_of_which_the_model_has_no_words_has_no_limit(
    tmp_path: Path, client: tuple[Disks, ...], traffic: Any, cache: str, said: str
) -> None:
    stage = stage_on(tmp_path, HDD, client=client)
    run_both(stage, cache, traffic or {"file system": {"reads": 1, "writes": 1}})
    bound = of_database(stage, of_mode(DmCacheMode.WRITEBACK), 1, GAIN)
    assert not bound.judges
    assert said in bound.why


def test_a_tier_needs_fast_disks_in_the_cluster_and_dm_cache_at_the_client(tmp_path: Path) -> None:
    """Either profile has a fast disk, and each is of no use to the other."""
    for name in "ab":
        (tmp_path / name).mkdir()
    at_client, in_cluster = (stage_on(tmp_path / "a", HDD, client=(NVME,)), stage_on(tmp_path / "b", HDD, NVME))
    for stage, over, other in ((at_client, of_mode(DmCacheMode.WRITEBACK), TIER), (in_cluster, TIER, None)):
        run_both(stage, over.name)
        assert of_database(stage, over, 1, GAIN).judges
        assert not of_database(stage, other or of_mode(DmCacheMode.WRITEBACK), 1, GAIN).judges


def guests(several: float) -> tuple[Interval, Interval]:
    return Interval(several, several * 0.95, several * 1.05, 20), Interval(100.0, 98.0, 102.0, 20)


@pytest.mark.parametrize(("six", "wanted"), [(550, Outcome.PASS), (150, Outcome.FAIL), (60, Outcome.FAIL)])
def test_six_guests_that_do_too_little_on_the_profiles_machines_are_red(
    tmp_path: Path, six: float, wanted: Outcome
) -> None:
    """On a lab's hosts 1.5 times as much would do."""
    stage = stage_on(tmp_path, NVME)
    bound = of_growth(stage, Shape("randread", 4096, 1, 1, 1), Shape("randread", 4096, 6, 1, 1), claims.SEVERAL)
    assert bound.basis is Basis.PROFILE
    claims.note_guests(stage.recorder, "6 guests", guests(six), bound, judged=True)
    assert CHECKS["figures"](stage.recorder.events()).outcome is wanted


def test_the_limit_of_several_guests_is_never_below_that_of_one(tmp_path: Path) -> None:
    """With as many guests as before the model's error alone would allow less."""
    bound = of_growth(stage_on(tmp_path, NVME), LOAD, LOAD, claims.SEVERAL)
    assert (bound.least, bound.basis) == (1.0, Basis.PROFILE)


def test_guests_that_the_model_has_no_words_for_are_held_to_the_paper(tmp_path: Path) -> None:
    bound = of_growth(stage_on(tmp_path, HDD), LOAD, replace(LOAD, replicas=99), claims.SEVERAL)
    assert (bound.least, bound.basis) == (1.0, Basis.SHAPE)
    assert "the model has no limit" in bound.why


@pytest.mark.parametrize(("lab", "imposed"), [("ssh", 0), ("uml", 1)])
def test_a_profiles_own_disks_are_not_made_slow(
    tmp_path: Path, lab: str, imposed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (benefit, tier_oltp):
        monkeypatch.setattr(module, "fill", lambda *_: None)
        delays: list[bool] = []
        slow = SimpleNamespace(impose=lambda made=delays: made.append(True))
        stand = SimpleNamespace(impose=slow.impose, stand=None, slow=slow)
        module.begin(cast("Any", stand), stage_on(tmp_path, HDD, lab=lab))
        assert len(delays) == imposed
