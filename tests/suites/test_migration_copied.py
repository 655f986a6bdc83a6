"""Bytes that OSDs copied by their own count: over daemons that end, and judged on both sides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import History
from cephlab.suites.migration import copied, exact, migrate
from cephlab.suites.migration.copied import COUNTER, Copied, note_copied, placed
from cephlab.suites.migration.exact import QuietMigration
from cephlab.suites.migration.movement import PlacedPg
from cephlab.suites.migration.swap import PAIRS
from cephlab.suites.migration.trial import OBJECT_BYTES, Migration

BEFORE = [PlacedPg("1.0", ("a", "b"), 10 * OBJECT_BYTES, 0), PlacedPg("2.0", ("a", "b"), OBJECT_BYTES, 0)]
AFTER = [PlacedPg("1.0", ("a", "c"), 10 * OBJECT_BYTES, 0), PlacedPg("2.0", ("c", "b"), OBJECT_BYTES, 0)]
LEAST = 11 * OBJECT_BYTES


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """What each running OSD counts."""
    known: dict[int, float] = {}

    def of_osds(_cluster: object, osds: Any = None) -> dict[int, dict[str, float]]:
        return {osd: {COUNTER: known[osd], "osd.op": 7.0} for osd in (known if osds is None else osds)}

    monkeypatch.setattr(copied, "of_osds", of_osds)
    return known


CLUSTER = cast("Any", SimpleNamespace(settle=lambda: None))


def test_a_daemon_that_ends_is_counted_and_its_number_counts_anew(counted: dict[int, float]) -> None:
    counted |= {0: 100.0, 1: 50.0, 2: 10.0}
    made = Copied(CLUSTER)
    assert made.bytes == 0
    counted |= {0: 130.0, 2: 15.0}
    made.leave([2])
    del counted[2]
    assert made.bytes == 35
    counted[2] = 7.0
    assert made.bytes == 42


@pytest.mark.parametrize(
    ("bytes_", "outcome"),
    [
        (1000, Outcome.PASS),
        (1020, Outcome.PASS),
        (981, Outcome.PASS),
        (1021, Outcome.FAIL),
        (980, Outcome.FAIL),
    ],
)
def test_too_much_and_too_little_are_both_found(bytes_: int, outcome: Outcome) -> None:
    recorder = History().recorder("s")
    note_copied(recorder, "n2 to m0", bytes_, 1000.0)
    recorder.witness("moved", got=1, least=1)
    assert figures(recorder.events()).outcome is outcome
    assert recorder.events()[0].data["basis"] == "correctness"


def test_the_pools_of_ceph_itself_are_moved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = {"pools": [{"pool_name": ".mgr"}, {"pool_name": "still"}]}
    cluster = SimpleNamespace(client=SimpleNamespace(mon=lambda prefix: {"osd dump": dump}[prefix]))
    monkeypatch.setattr(copied, "placement", lambda _cluster, pool, _kind: [PlacedPg(pool, ("a",), 0, 0)])
    assert [pg.pgid for pg in placed(cast("Any", cluster))] == [".mgr", "still"]


@pytest.mark.parametrize(("pushed", "outcome"), [(0, Outcome.PASS), (OBJECT_BYTES, Outcome.FAIL)])
def test_a_quiet_migration_judges_each_leg(
    counted: dict[int, float], monkeypatch: pytest.MonkeyPatch, pushed: int, outcome: Outcome
) -> None:
    """The node that leaves had copied an object too many before, and takes its count with it."""
    counted |= {0: 5.0, 2: 3.0}
    places = [AFTER, AFTER]
    monkeypatch.setattr(exact, "placed", lambda _cluster: places.pop(0))
    monkeypatch.setattr(migrate, "osds_on", lambda _cluster, node: {"n2": [2]}[node])
    monkeypatch.setattr(Migration, "disturb", lambda *_: None)
    monkeypatch.setattr(Migration, "recovered", lambda *_: None)
    monkeypatch.setattr(QuietMigration, "cluster", CLUSTER)
    recorder = History().recorder("s")
    running = QuietMigration(
        stage=cast("Any", SimpleNamespace(recorder=recorder, cluster=CLUSTER)),
        kind=PAIRS,
        still=cast("Any", None),
        copied=Copied(CLUSTER),
        all_before=BEFORE,
    )
    counted[2] += pushed
    running.disturb("n2")
    del counted[2]
    counted[0] += LEAST
    running.recovered("n2 to m0")
    assert figures(recorder.events()).outcome is outcome
    running.recovered("nothing")
    assert running.copied.bytes == 0
    [nothing] = [event.data for event in recorder.events() if event.data.get("metric") == "copied_bytes[nothing]"]
    assert (nothing["value"], nothing["most"]) == (0, 0)
    assert figures(recorder.events()).outcome is not Outcome.PASS
