"""A lost node by hand: who is lost, what is asked of the cluster and undone, and how long the sample's rate takes."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.ceph.pgs import NO_OSD, Pg
from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval
from cephlab.suites.migration.movement import PlacedPg
from cephlab.suites.profile import lost as losing
from cephlab.suites.profile.lost import Sample, followed, lost, sampled, seen_of, steady, unfit, unfit_there, where
from cephlab.suites.profile.measured import Seen
from cephlab.tuning.held import Trust
from cephlab.tuning.profile import DiskKind, Profile
from cephlab.tuning.requirements import Protection
from cephlab.tuning.units import Measure
from tests.fake_clock import VirtualClock
from tests.fake_stage import stage_of
from tests.model_parts import disks, figure, machine, profile
from tests.suites.test_profile_ways import NODE, cluster_of

TRUST = Trust(recovery=2.5, objects=9.0)
GIB = 1 << 30
ROUGH = [(0.0, 0.0), (1.0, 0.01), (2.0, 0.11), (3.0, 0.13), (4.0, 0.25), (5.0, 0.27), (6.0, 0.4), (8.0, 1.0)]
"""After the first look at 1 s, five rates of 2 to 13 % a second, and a last one above the steady share."""


def four(gib: float = 1000.0, kind: DiskKind = DiskKind.NVME) -> Profile:
    """A profile of four machines with one disk each."""
    disk = replace(disks(kind=kind), size=figure(gib * GIB, Measure.BYTES))
    return profile(machine(count=4, disk=(disk,)))


def machines(count: int, did: list[str] | None = None, **answers: Any) -> Any:
    return cluster_of(
        count, {key.replace("_", " "): answer for key, answer in answers.items()}, [] if did is None else did
    )


# Which, and why not


def test_a_plain_loss_can_be_made() -> None:
    assert unfit(NODE) == ""
    assert unfit(NODE.model_copy(update={"share": 0.99})) != ""


def stored(*counts: int) -> dict[str, Any]:
    return {"pools": [{"name": str(count), "stats": {"stored": count}} for count in counts]}


@pytest.mark.parametrize(
    ("left", "copies", "held", "said"),
    [
        (3, 3, (), ""),
        (
            3,
            4,
            (),
            "replicated:4 on the 3 machines that would be left: CRUSH's default rule leaves PGs undersized there",
        ),
        (
            1,
            2,
            (),
            "replicated:2 on the 1 machine that would be left: CRUSH's default rule leaves PGs undersized there",
        ),
        # Of disks of 4000 bytes a thousandth may be in use.
        (3, 3, (1, 3), ""),
        (3, 3, (2, 3), "the cluster holds 5 B of other data, which would be copied too"),
    ],
)
def test_nothing_is_taken_out_where_it_would_tell_nothing(
    left: int, copies: int, held: tuple[int, ...], said: str
) -> None:
    nodes: Any = [SimpleNamespace(disks=[SimpleNamespace(size_bytes=500)] * 2)] * 4
    cluster = machines(4, df=stored(*held))
    assert unfit_there(cluster, four(), nodes, left, Protection(copies)) == said


def test_other_machines_than_the_profiles_are_left_alone() -> None:
    said = "the cluster has OSDs on 3 machines, but test on 4"
    assert unfit_there(machines(3), four(), [], 3, Protection(2)) == said


def test_nothing_is_taken_out_for_a_requirement_that_fills_the_others() -> None:
    """A sample would copy quickly what the required bytes could not: half of each of four disks does not fit on two."""
    said = lost(stage_of(machines(4, df=stored())), four(), TRUST, NODE.model_copy(update={"nodes_lost": 2}))
    assert isinstance(said, str)
    assert said.startswith("the disks of n that are left would be 100 % full on average")


@pytest.mark.parametrize(("kind", "slower"), [(DiskKind.NVME, 1.0), (DiskKind.HDD, 2.5)])
def test_the_largest_machines_are_lost_and_all_of_their_bytes_count(
    monkeypatch: pytest.MonkeyPatch, kind: DiskKind, slower: float
) -> None:
    """Machines are listed from the largest; two of them are lost, each with 0.4 of a disk."""
    cluster = machines(4, df=stored())
    cluster.spec.nodes.reverse()
    stage, on = stage_of(cluster), four(kind=kind)
    sample = Sample(ROUGH, 1e9, whole=True)

    def made(*given: object) -> Sample:
        assert given == (stage, on, NODE.protection, [2, 3])
        return sample

    monkeypatch.setattr(losing, "sampled", made)
    seen = lost(stage, on, TRUST, NODE.model_copy(update={"nodes_lost": 2, "fill": 0.4}))
    assert seen == seen_of(sample, 2 * 0.4 * 1000 * GIB, slower)
    [witness] = stage.recorder.events()
    assert witness.data == {"what": "bytes of the sample on the lost OSDs", "got": 1e9, "least": 1}


def test_a_cluster_with_other_data_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losing, "sampled", lambda *_: pytest.fail("the cluster is not empty"))
    said = "the cluster holds 1 KiB of other data, which would be copied too"
    assert lost(stage_of(machines(4, df=stored(1024))), four(), TRUST, NODE) == said


# The sample


def watched(
    monkeypatch: pytest.MonkeyPatch, did: list[str], cluster: Any, pool: str, k: int, moved: bool = True
) -> None:
    """A sample of one PG of 1000 bytes. Its shard on OSD 3 is on OSD 0 after the loss, if it moves."""

    @contextmanager
    def images(on: object, guard: Protection, count: int, size: int, *, passes: int) -> Iterator[list[object]]:
        assert (on, guard.k) == (cluster, k)
        did.append(f"write {count} x {size}, {passes} time(s)")
        yield []
        did.append("delete")

    def placement(*given: object) -> list[PlacedPg]:
        assert given == (cluster, pool, k)
        out = any(line.startswith("osd out") for line in did)
        return [PlacedPg("1.0", ("1", "2", "0" if out and moved else "3"), 1000, k)]

    def recovered(*given: object) -> int:
        assert given == (cluster, pool)
        return 100

    def follow(*given: object) -> tuple[list[tuple[float, int]], bool]:
        assert given[:2] == (cluster, pool)
        did.append(f"follow for {given[2]} s")
        return [(2.0, 600), (4.0, 1100)], True

    monkeypatch.setattr(losing, "images", images)
    monkeypatch.setattr(losing, "where", placement)
    monkeypatch.setattr(losing, "recovered_bytes", recovered)
    monkeypatch.setattr(losing, "followed", follow)
    cluster.load_nodes = lambda: ["a", "b"]
    cluster.settle = lambda: did.append("settle")
    cluster.wait_healthy = lambda most_s: did.append(f"healthy within {most_s:g} s")


@pytest.mark.parametrize(
    ("guard", "tier", "gib", "size"),
    [
        # 8 GiB for each of four OSDs, as three copies in the images of two clients.
        (Protection(3), Tier.QUICK, 1000, 8 * GIB * 4 // (3 * 2)),
        (Protection(3), Tier.FULL, 1000, 32 * GIB * 4 // (3 * 2)),
        # Three shards of which two have all of the data.
        (Protection(k=2, m=1), Tier.QUICK, 1000, 8 * GIB * 4 * 2 // (3 * 2)),
        # A twentieth of four small disks.
        (Protection(k=2, m=1), Tier.QUICK, 50, 4 * 50 * GIB // 20 * 2 // (3 * 2)),
    ],
)
def test_a_sample_is_written_lost_followed_and_undone(
    monkeypatch: pytest.MonkeyPatch, guard: Protection, tier: Tier, gib: float, size: int
) -> None:
    did: list[str] = []
    cluster = machines(4, did, osd_in=None, osd_out=None)
    watched(monkeypatch, did, cluster, "wanted-data" if guard.k else "wanted", guard.k)
    stage = replace(stage_of(cluster), tier=tier)
    sample = sampled(stage, four(gib), guard, [2, 3])
    assert did == [
        "osd in 2,3",
        f"write 2 x {size >> 22 << 22}, 1 time(s)",
        "settle",
        "stop osd.2",
        "stop osd.3",
        "osd out 2,3",
        f"follow for {900.0 if tier is Tier.QUICK else 3600.0} s",
        "delete",
        "start osd.3",
        "start osd.2",
        "osd in 2,3",
        "healthy within 600 s",
    ]
    held = 2000 / max(1, guard.k)
    assert sample == Sample([(0.0, 0.0), (2.0, 0.5), (4.0, 1.0)], held, whole=True)
    [event] = stage.recorder.events()
    wanted = {"counted_before": 100, "to_copy": 1000, "held": held, "whole": True}
    assert (event.kind, event.data) == ("recovered", {"points": [[2.0, 600], [4.0, 1100]], **wanted})


def test_where_nothing_has_to_be_copied_there_is_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []
    cluster = machines(4, did, osd_in=None, osd_out=None)
    watched(monkeypatch, did, cluster, "wanted", 0, moved=False)
    assert sampled(stage_of(cluster), four(), Protection(3), [3]) == Sample([], 1000, whole=True)


def test_what_was_not_stopped_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []
    cluster = machines(4, did, osd_in=None)
    watched(monkeypatch, did, cluster, "wanted", 0)

    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("no pool")

    monkeypatch.setattr(losing, "images", broken)
    with pytest.raises(RuntimeError, match="no pool"):
        sampled(stage_of(cluster), four(), Protection(3), [3])
    assert did == ["osd in 3", "osd in 3", "healthy within 600 s"]


def test_pgs_are_placed_with_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = machines(3, pg_ls_by_pool=None)
    pgs = (Pg("1.0", "", 1, (2, NO_OSD, 0), 2), Pg("1.1", "", 1, (1, 2, 0), 1))

    def pgs_of(*given: object) -> Sequence[Pg]:
        assert given == (cluster, "wanted")
        return pgs

    def statistics(*given: object) -> list[dict[str, Any]]:
        assert given == (cluster, "wanted")
        return [{"pgid": "1.0", "stat_sum": {"num_bytes": 70}}]

    monkeypatch.setattr(pools, "pgs_of", pgs_of)
    monkeypatch.setattr(losing, "statistics", statistics)
    assert where(cluster, "wanted", 2) == [
        PlacedPg("1.0", ("2", "", "0"), 70, 2),
        PlacedPg("1.1", ("1", "2", "0"), 0, 2),
    ]


@pytest.mark.parametrize(
    ("states", "points", "whole"),
    [
        (["active+clean"], [(0.0, 1)], True),
        (
            ["active+recovering", "peering", "clean", "active+clean+scrubbing"],
            [(2.0 * n, n + 1) for n in range(4)],
            True,
        ),
        # A patience of 3 makes seven and a half seconds of it; the last look is at their end.
        (["active+undersized"] * 9, [(0.0, 1), (2.0, 2), (4.0, 3), (6.0, 4), (7.5, 5)], False),
    ],
)
def test_a_recovery_is_looked_at_until_its_pgs_are_clean_or_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, states: list[str], points: list[tuple[float, int]], whole: bool
) -> None:
    clock, settled, left = VirtualClock(), list[float](), iter(states)
    cluster = SimpleNamespace(patience=3.0, settle=lambda: settled.append(clock.now))
    monkeypatch.setattr(losing, "Deadline", SimpleNamespace(after=lambda seconds: Deadline.after(seconds, clock)))

    def statistics(*given: object) -> list[dict[str, Any]]:
        assert given == (cluster, "wanted")
        return [{"state": "active+clean"}, {"state": next(left)}]

    def recovered(*given: object) -> int:
        assert given == (cluster, "wanted")
        return len(settled)

    monkeypatch.setattr(losing, "statistics", statistics)
    monkeypatch.setattr(losing, "recovered_bytes", recovered)
    assert followed(cluster, "wanted", 2.5) == (points, whole)  # type: ignore[arg-type]


# The time


def test_the_steady_rate_leaves_out_the_first_look_and_what_is_above_its_share() -> None:
    """The look with exactly four fifths still counts."""
    assert steady([(0.0, 0.0), (1.0, 0.5), (3.0, 0.6), (5.0, 0.8), (6.0, 0.9), (7.0, 1.0)]) == pytest.approx(
        [0.05, 0.1]
    )
    assert steady(ROUGH) == pytest.approx([0.1, 0.02, 0.12, 0.02, 0.13])


def told(seen: Seen) -> Interval:
    assert seen.interval is not None
    return seen.interval


def test_an_uneven_rate_is_slow_by_its_lower_end() -> None:
    seen = seen_of(Sample(ROUGH, 50 * GIB, whole=True), 1000 * GIB, 1.5)
    rate = interval(steady(ROUGH))
    assert 0 < rate.low < 1 / 8
    assert told(seen) == Interval(20 / rate.mean, 20 / rate.high, 20 / rate.low * 1.5, 5)
    assert seen.sentences[0] == (
        "Recovery of 50 GiB on the lost OSDs was measured without clients, and its time multiplied by 20: from the "
        "upper end of the steady rate to the slower of its lower end and the whole time of 8 s, times 1.5 on rotating "
        "disks, the model's error for recovery."
    )
    assert len(seen.sentences) == 2


def even(looks: int, last_s: float) -> list[tuple[float, float]]:
    """A tenth in each second, of which the first look has one, and the rest after so many looks."""
    return [(0.0, 0.0), *((float(n), n / 10) for n in range(1, looks + 1)), (last_s, 1.0)]


def test_an_even_rate_is_slow_by_the_whole_time() -> None:
    seen = seen_of(Sample(even(8, 30.0), 50 * GIB, whole=True), 1000 * GIB, 1.0)
    assert told(seen).mean == pytest.approx(200)
    assert told(seen).low == pytest.approx(200)
    assert told(seen).high == 20 * 30.0
    assert seen.sentences[0].endswith("the whole time of 30 s.")


def test_a_rate_that_may_be_none_has_no_slow_end() -> None:
    points = [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0), (5.0, 0.0), (6.0, 0.7), (7.0, 1.0)]
    assert told(seen_of(Sample(points, 1.0, whole=True), 10.0, 1.0)).high == math.inf


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (Sample(even(8, 9.0), 9.0, whole=False), "the sample was not fully recovered within 9 s"),
        (Sample([], 0.0, whole=False), "the sample was not fully recovered within 0 s"),
        (Sample([], 9.0, whole=True), "by Ceph's count only 0 % of the bytes to copy were copied"),
        (Sample(even(8, 9.0), 0.0, whole=True), "by Ceph's count only 100 % of the bytes to copy were copied"),
        (
            Sample([*even(8, 9.0)[:-1], (9.0, 0.89)], 9.0, whole=True),
            "by Ceph's count only 89 % of the bytes to copy were copied",
        ),
        (
            Sample(even(5, 6.0), 9.0, whole=True),
            "the sample was fully recovered within 6 s: too soon for a steady rate",
        ),
        (
            Sample([*((float(n), 0.0) for n in range(9)), (9.0, 1.0)], 9.0, whole=True),
            "the sample was fully recovered within 9 s: too soon for a steady rate",
        ),
    ],
)
def test_a_sample_without_a_steady_rate_has_no_figure(sample: Sample, why: str) -> None:
    assert seen_of(sample, 10.0, 1.0) == Seen(None, why_not=why)


@pytest.mark.parametrize(
    ("points", "held"), [([*even(8, 9.0)[:-1], (9.0, 0.9)], 9.0), (even(6, 9.0), 9.0), (even(8, 9.0), 1.0)]
)
def test_what_is_just_enough_has_a_figure(points: list[tuple[float, float]], held: float) -> None:
    """Nine tenths of the bytes, five rates, one byte."""
    assert told(seen_of(Sample(points, held, whole=True), 10.0, 1.0)).mean == pytest.approx(10 / held / 0.1)
