"""The dm-cache suite's own rules, without a machine: what is lost, what is a gain, and what a topology asks for."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.blockstack.dmcache import (
    CacheDevice,
    DmCacheMode,
    WriteCache,
    WritecacheStatus,
    parse_status,
)
from cephlab.lab.blockstack.mapper import Mapper
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History, Recorder
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.declared import unseen
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.demand import Interval
from cephlab.suites.dmcache import SCENARIOS
from cephlab.suites.dmcache.benefit import GAIN, note_gain
from cephlab.suites.dmcache.findings import judged_by, note_findings, thread_counts
from cephlab.suites.dmcache.oltp import Elsewhere, described, look_at
from cephlab.suites.dmcache.settings import OF_BLOCKS, OF_ROOM, OF_SIZES, note_hits, note_rate
from cephlab.suites.dmcache.stand import TOPOLOGY, Stand
from cephlab.tuning.comparison import PAPER, Held, load_findings
from tests.lab.blockstack.test_blockstack import STATUS
from tests.tuning.test_comparison import oltp


@pytest.mark.parametrize(
    ("with_cache", "outcome"),
    [
        ((40.0, 41.0, 42.0), Outcome.PASS),
        ((19.0, 21.0, 20.5), Outcome.INCONCLUSIVE),
        ((9.0, 10.0, 11.0), Outcome.FAIL),
    ],
)
def test_a_gain_is_judged_by_whole_intervals(with_cache: tuple[float, ...], outcome: Outcome) -> None:
    recorder = History().recorder("dmcache.gain")
    recorder.witness("transactions", got=100, least=1)
    note_gain(recorder, "writeback", {True: with_cache, False: (19.0, 20.0, 21.0)}, GAIN)
    assert CHECKS["figures"](recorder.events()).outcome is outcome


def test_the_client_alone_has_the_disks() -> None:
    spec = TOPOLOGY.spec("reef")
    assert [node.name for node in spec.nodes] == ["n0", "c0"]
    assert [disk.name for disk in spec.nodes[1].disks] == ["cache", "metadata"]
    assert spec.nodes[0].arch is host_arch()


def stand_with(cache: CacheDevice | WriteCache | None) -> Stand:
    nothing = cast("Any", None)
    return Stand(nothing, Mapper(nothing), nothing, cache_bytes=1 << 20, cache=cache)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (None, {"cache": "none", "block_bytes": 0, "room_bytes": 0}),
        (DmCacheMode.WRITEBACK, {"cache": "writeback", "block_bytes": 32768, "room_bytes": 1 << 20}),
        ("other", {"cache": "writecache", "block_bytes": 0, "room_bytes": 1 << 20}),
    ],
)
def test_a_run_says_what_was_between_and_how_large_it_was(kind: str | None, wanted: dict[str, object]) -> None:
    mapper, device = Mapper(cast("Any", None)), PurePosixPath("/dev/x")
    made = {
        None: None,
        DmCacheMode.WRITEBACK: CacheDevice(mapper, "db", device, device, device, DmCacheMode.WRITEBACK, 64),
        "other": WriteCache(mapper, "db", device, device),
    }
    assert described(stand_with(made[kind]), None) == wanted


def test_a_cache_that_is_not_on_the_client_says_so_itself() -> None:
    assert described(stand_with(None), Elsewhere("tier", 7, lambda: None)) == {
        "cache": "tier",
        "block_bytes": 0,
        "room_bytes": 7,
    }


def test_a_write_cache_is_drawn_by_the_blocks_in_use() -> None:
    """It counts no promotions, and what is dirty in it is no field of its status."""
    recorder = History().recorder("dmcache.writecache")
    for free in (9, 4):
        look_at(recorder, "writecache", WritecacheStatus(0, 10, free, 0))
    drawn = [event.data["drawn"] for event in recorder.events()]
    assert [panels["dirty blocks"] for panels in drawn] == [{"dirty": 1}, {"dirty": 6}]
    assert drawn[0]["blocks since the cache was made"] == {"promoted": 0, "evicted": 0}
    assert not any("hits" in panel for panel in drawn[0])


def test_the_hits_of_a_cache_are_drawn_as_a_share_of_its_requests() -> None:
    recorder = History().recorder("dmcache.gain")
    look_at(recorder, "writeback", parse_status(STATUS))
    (event,) = recorder.events()
    assert event.data["drawn"]["hits since the cache was made, share of requests"] == {"hits": 312 / 3526}


LOW, HIGH = (9.0, 10.0, 11.0, 10.0), (29.0, 30.0, 31.0, 30.0)


def stage_of(recorder: Recorder, lab: str = "uml") -> Stage:
    """A run with a profile named: of `ssh` the hosts are its machines, and those of a lab's guests are not."""
    home = Home(Path("/nonexistent"))
    spec = SimpleNamespace(nodes=())
    cluster = SimpleNamespace(provider=provider(lab), run=SimpleNamespace(home=home), spec=spec)
    made = SimpleNamespace(recorder=recorder, cluster=cluster, profile="incerta-3n", changes=())
    return cast("Stage", made)


def judged_findings(
    *made: tuple[str, int, Sequence[float]], rows: int = 10, block_bytes: int = 0, lab: str = "uml"
) -> tuple[Outcome, dict[str, Mapping[str, Any]]]:
    """Verdict and figures of runs: (cache, threads, transactions a second)."""
    recorder = History().recorder("dmcache.threads")
    recorder.witness("transactions", got=100, least=1)
    for cache, threads, tps in made:
        run = oltp(cache, threads, tps, rows=rows, block_bytes=block_bytes)
        recorder.record(run.kind, **run.data)
    note_findings(stage_of(recorder, lab))
    events = recorder.events()
    figures = {event.data["metric"]: event.data for event in events if event.kind == "figure"}
    return CHECKS["figures"](events).outcome, figures


MORE = "dm-cache commits more transactions at few threads"
TURNS = "dm-cache commits fewer transactions at many threads"


@pytest.mark.parametrize(
    ("cached", "outcome"),
    [(HIGH, Outcome.PASS), (LOW[::-1], Outcome.INCONCLUSIVE), ((3.0, 3.1, 2.9, 3.0), Outcome.FAIL)],
)
def test_a_finding_counts_in_the_scenario_that_ran_both_of_its_sides(cached: Sequence[float], outcome: Outcome) -> None:
    decided, figures = judged_findings(("none", 1, LOW), ("writeback", 1, cached))
    assert decided is outcome
    assert set(figures) == {MORE, "dm-cache has a lower latency at few threads"}
    assert figures[MORE]["basis"] == "shape"


def test_a_finding_that_no_lab_can_show_is_noted_and_does_not_decide() -> None:
    sides = [("none", 1, LOW), ("writeback", 1, HIGH), ("none", 32, LOW), ("writeback", 32, HIGH)]
    outcome, figures = judged_findings(*sides)
    assert outcome is Outcome.PASS
    assert figures[TURNS]["value"] == pytest.approx(3.0)
    assert "one CPU" in figures[TURNS]["why"]
    assert "most" not in figures[TURNS] or figures[TURNS]["most"] is None


SLOWER = "dm-cache has a higher latency at many threads"


@pytest.mark.parametrize(
    ("many", "outcome"),
    [((3.0, 3.1, 2.9, 3.0), Outcome.PASS), (LOW[::-1], Outcome.INCONCLUSIVE), (HIGH, Outcome.FAIL)],
)
def test_on_a_profiles_machines_a_turn_that_is_not_there_is_red(many: Sequence[float], outcome: Outcome) -> None:
    """The paper's turn is at many threads, of which the client of a lab has one processor alone."""
    sides = [("none", 1, LOW), ("writeback", 1, HIGH), ("none", 32, LOW), ("writeback", 32, many)]
    decided, figures = judged_findings(*sides, lab="ssh")
    assert decided is outcome
    assert (figures[TURNS]["most"], figures[TURNS]["basis"]) == (1.0, "shape")
    assert (figures[SLOWER]["least"], figures[SLOWER]["basis"]) == (1.0, "shape")


def test_every_finding_that_a_lab_only_notes_is_judged_on_a_profiles_machines_or_says_what_is_not_theirs() -> None:
    held = Held(Interval(1.0, 0.9, 1.1, 8), 1.0, None, "")
    here = [finding for finding in load_findings(PAPER).findings if finding.here]
    assert len(here) == 8
    of_sizes = [finding.name for finding in here if not judged_by(finding, held, at_home=True).judges]
    assert of_sizes == [
        "hit rate of dm-cache with a database that fits",
        "a larger database commits more transactions through dm-cache",
        "hit rate of a dm-cache that is too small",
    ]
    assert not any(judged_by(finding, held, at_home=False).judges for finding in here)


@pytest.mark.parametrize(
    ("topic", "wanted"), [("block-size", OF_BLOCKS), ("database-size", OF_SIZES), ("small-cache", OF_ROOM)]
)
def test_a_run_without_the_finding_that_is_its_goal_shows_nothing(topic: str, wanted: Sequence[str]) -> None:
    """Rates alone have no limit: without the comparison of both sides, any rates would pass."""
    assert set(wanted) <= {finding.name for finding in load_findings(PAPER).findings}
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == f"dmcache.{topic}")
    recorder = History().recorder(scenario.name)
    for what in ("10000 rows", "blocks of 32 KiB, 1 threads", "blocks of 1024 KiB, 1 threads"):
        note_rate(recorder, what, [1.0, 2.0])
    assert set(wanted) <= set(unseen(recorder.events(), scenario.must_see))
    for name in wanted:
        recorder.figure(name, 2.0, "times")
    assert not set(wanted) & set(unseen(recorder.events(), scenario.must_see))


@pytest.mark.parametrize(
    ("large", "small", "outcome"),
    [
        ((0.96, 0.97, 0.98), (0.85, 0.86, 0.87), Outcome.PASS),
        ((0.7, 0.71, 0.72), (0.6, 0.61, 0.62), Outcome.FAIL),
        ((0.93, 0.94, 0.95), (0.97, 0.98, 0.99), Outcome.FAIL),
        ((0.8, 0.9, 1.0), (0.5, 0.5, 0.51), Outcome.INCONCLUSIVE),
    ],
    ids=["as it should be", "a cache that is not hit", "the smaller one is hit more", "cannot say"],
)
def test_hit_ratios_are_judged(large: Sequence[float], small: Sequence[float], outcome: Outcome) -> None:
    recorder = History().recorder("dmcache.small-cache")
    recorder.witness("transactions", got=100, least=1)
    note_hits(recorder, large, small)
    assert CHECKS["figures"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(("cores", "most"), [(1, 32), (2, 32), (40, 152), (64, 243)])
def test_threads_follow_the_clients_processors(cores: float, most: int) -> None:
    counts = thread_counts(cast("Host", SimpleNamespace(facts=lambda: SimpleNamespace(cores=cores))), 32)
    assert (counts[0], counts[-1]) == (1, most)
    assert sorted(set(counts)) == list(counts)
