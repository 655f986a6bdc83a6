"""A lost node where the machines are: what is taken out and put back, and which sample tells a time to recover."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph.pgs import NO_OSD, Pg
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.history.history import data_of
from cephlab.suites.profile import lost as losing
from cephlab.suites.profile.lost import Sample, followed, lost, sampled, seen_of, steady
from cephlab.suites.profile.measured import Seen
from cephlab.suites.profile.ways import Way, way_of
from cephlab.tuning.held import on_each
from cephlab.tuning.requirements import Protection
from tests.fake_stage import stage_of
from tests.suites.test_profile_ways import NODE, cluster_of, judged
from tests.tuning.test_requirements import ALTRA, find, trust


def recovery(shares_s: float = 0.05, seconds: float = 20.0, held: float = 1e9) -> Sample:
    """A sample that is copied by that share a second, with a second to peer and two at the end."""
    points = [(0.0, 0.0), (1.0, 0.0)]
    points += [(1.0 + at_s, min(1.0, shares_s * at_s)) for at_s in (2.0 * n for n in range(1, int(seconds / 2) + 1))]
    return Sample([*points, (points[-1][0] + 2, 1.0)], held, whole=True)


def test_the_steady_rate_is_without_the_beginning_and_the_end() -> None:
    rates = steady(recovery().points)
    assert rates == pytest.approx([0.05] * 8)


def test_the_required_bytes_take_so_many_times_as_long() -> None:
    took_s = seen_of(recovery(), 100e9, 1.0).interval
    assert took_s is not None
    assert took_s.mean == pytest.approx(100 / 0.05)
    assert took_s.low == pytest.approx(100 / 0.05)
    assert took_s.high == pytest.approx(100 * 23)
    slow = seen_of(recovery(), 100e9, 2.0)
    assert slow.interval is not None
    assert slow.interval.high == pytest.approx(2 * 100 * 23)
    assert "times 2 on rotating disks" in slow.sentences[0]


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (Sample(recovery().points, 1e9, whole=False), "was not fully recovered within 23 s"),
        (Sample([(0.0, 0.0), (9.0, 0.5)], 1e9, whole=True), "only 50 % of the bytes to copy were copied"),
        (Sample([], 0.0, whole=True), "only 0 % of the bytes to copy were copied"),
        (recovery(0.5, 2), "too soon for a steady rate"),
    ],
)
def test_a_sample_that_shows_no_rate_is_inconclusive(sample: Sample, said: str) -> None:
    decided, reason, data = judged(NODE, seen_of(sample, 100e9, 1.0))
    assert decided is Outcome.INCONCLUSIVE
    assert said in reason
    assert data["rows"][0]["measured"] == ""


@pytest.mark.parametrize(
    ("held", "outcome"), [(15e9, Outcome.PASS), (9.6e9, Outcome.INCONCLUSIVE), (5e9, Outcome.FAIL)]
)
def test_a_measured_recovery_decides_by_its_interval(held: float, outcome: Outcome) -> None:
    """0.5 of 19.2 TB on the lost node; a sample of 9.6 GB in 23 s takes 6.4 h and 20 s of it steadily 5.4 h."""
    decided, _, data = judged(NODE, seen_of(recovery(held=held), on_each(NODE, find(ALTRA)), 1.0))
    assert decided is outcome
    assert data["rows"][0]["measured"].endswith(" h)")
    assert len(data["measuring"]) == 2


def test_nothing_is_taken_out_where_others_store_something_or_too_few_machines_would_be_left() -> None:
    did: list[str] = []
    full = {"df": {"pools": [{"name": "rbd", "stats": {"stored": 5_000_000}}]}}
    assert "4.77 MiB of other data" in str(lost(stage_of(cluster_of(4, full, did)), find(ALTRA), trust(), NODE))
    four = NODE.model_copy(update={"protection": Protection(4)})
    assert "on the 3 machines that would be left" in str(
        lost(stage_of(cluster_of(4, full, did)), find(ALTRA), trust(), four)
    )
    assert did == ["df"]


COPIED: Mapping[str, Any] = {"osd in": None, "osd out": None, "df": {"pools": []}}


def image_there(monkeypatch: pytest.MonkeyPatch, did: list[str]) -> None:
    @contextmanager
    def made(_cluster: object, _guard: Protection, count: int, size: int, *, passes: int) -> Iterator[list[object]]:
        did.append(f"write {count} x {size >> 20} MiB, {passes} time(s)")
        yield []
        did.append("delete")

    monkeypatch.setattr(losing, "images", made)
    there = {False: (2, 3), True: (2, 0)}
    monkeypatch.setattr(pools, "pgs_of", lambda _cluster, _name: (Pg("1.0", "", 1, there["osd out 3" in did], 0),))
    monkeypatch.setattr(
        losing, "statistics", lambda _cluster, _pool: [{"pgid": "1.0", "stat_sum": {"num_bytes": 1000}}]
    )
    monkeypatch.setattr(losing, "recovered_bytes", lambda _cluster, _pool: 7)


def test_the_largest_machine_is_lost_and_is_back_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []
    image_there(monkeypatch, did)
    monkeypatch.setattr(losing, "followed", lambda _cluster, _pool, _s: ([(2.0, 507), (4.0, 1007)], True))
    cluster = cluster_of(4, COPIED, did)
    stage = stage_of(cluster)
    seen = lost(stage, find(ALTRA), trust(), NODE)
    assert did == [
        "df",
        "osd in 3",
        "write 1 x 16384 MiB, 1 time(s)",
        "stop osd.3",
        "osd out 3",
        "delete",
        "start osd.3",
        "osd in 3",
        "healthy",
    ]
    assert isinstance(seen, Seen)
    assert "too soon for a steady rate" in seen.why_not
    [kept] = data_of(stage.recorder.events(), "recovered")
    assert (kept["held"], kept["to_copy"], kept["whole"]) == (1000, 1000, True)


@pytest.mark.parametrize("breaks", ["osd out", "followed"])
def test_whatever_goes_wrong_is_undone(monkeypatch: pytest.MonkeyPatch, breaks: str) -> None:
    did: list[str] = []
    image_there(monkeypatch, did)
    trouble = CephTrouble("it broke")

    def broken(*_: object) -> Any:
        raise trouble

    monkeypatch.setattr(losing, "followed", broken)
    answers = {**COPIED, "osd out": trouble} if breaks == "osd out" else COPIED
    with pytest.raises(CephTrouble, match="it broke"):
        sampled(stage_of(cluster_of(4, answers, did)), find(ALTRA), NODE.protection, [3])
    assert did[-3:] == ["start osd.3", "osd in 3", "healthy"]


def test_an_osd_that_is_not_on_the_list_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []
    image_there(monkeypatch, did)
    answers = {**COPIED, "osd in": NotPermitted("osd.3 is not on the list", "daemons", "osd.3")}
    stage = stage_of(cluster_of(4, answers, did))
    way = way_of(NODE)
    assert isinstance(way, Way)
    said = way.measure(stage, find(ALTRA), trust())
    assert "osd.3 is not on the list; allow it with --may-break: daemons = ['osd.3']" in str(said)
    assert did == ["df", "osd in 3"]


def test_a_recovery_is_followed_until_all_is_clean_or_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter(range(0, 100, 10))
    monkeypatch.setattr(losing, "recovered_bytes", lambda _cluster, _pool: next(counts))
    monkeypatch.setattr(losing, "EVERY_S", 0.0)
    states = iter(["active+undersized+degraded", "active+recovering", "active+clean+scrubbing"])
    cluster = cluster_of(4, {}, [])
    monkeypatch.setattr(
        losing, "statistics", lambda _cluster, _pool: [{"state": next(states)}, {"state": "active+clean"}]
    )
    points, whole = followed(cluster, "wanted", 60.0)
    assert ([count for _, count in points], whole) == ([0, 10, 20], True)
    monkeypatch.setattr(losing, "statistics", lambda _cluster, _pool: [{"state": "active+degraded"}])
    assert followed(cluster, "wanted", 0.0)[1] is False


def test_a_shard_that_no_osd_has_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "pgs_of", lambda _cluster, _name: (Pg("1.0", "", 1, (2, NO_OSD), 2),))
    monkeypatch.setattr(losing, "statistics", lambda _cluster, _pool: [])
    [placed] = losing.where(cast("Any", None), "wanted", 2)
    assert placed.stores == ("2", "")
