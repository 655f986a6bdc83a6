"""How long a scenario may take comes from its passes on the same provider and in the same tier, else from the tier."""

import json
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.durations import (
    GROWN_MORE,
    MOST_ARCHIVES,
    Pass,
    Place,
    by_start,
    growth_limits,
    kept_passes,
    last_times,
    limit_of,
)
from cephlab.lab.checks.aftermath import MOST_GROWN

HERE = Place("interop.rbd", "quick", "local")


def test_the_longest_pass_gives_the_limit() -> None:
    limit = limit_of({HERE: [Pass(10, 1), Pass(40, 1), Pass(20, 1)]}, HERE, 1.0)
    assert (limit.of, limit.seconds) == ("interop.rbd", 5 * 40 + 120)
    assert limit.why == "5 times the longest of 3 kept passes (40 s) plus 120 s"


def test_the_longest_is_that_by_its_own_patience_and_the_reason_has_all_of_the_sum() -> None:
    limit = limit_of({HERE: [Pass(30, 3), Pass(20, 1)]}, HERE, 2.0)
    assert (limit.of, limit.seconds) == ("interop.rbd", 5 * 40 + 240)
    assert limit.why == "5 times the longest of 2 kept passes (20 s, 40 s with the patience of 2 here) plus 240 s"


def test_a_pass_that_lasts_longest_here_gives_the_limit_although_it_had_more_patience() -> None:
    limit = limit_of({HERE: [Pass(100, 1), Pass(300, 10)]}, HERE, 1.0)
    assert limit.seconds == 5 * 300 + 120


@pytest.mark.parametrize(("then", "now", "seconds"), [(1.0, 3.0, 5 * 90 + 360), (3.0, 1.0, 5 * 30 + 120)])
def test_a_slower_emulator_gets_more_time_and_a_faster_one_no_less(then: float, now: float, seconds: float) -> None:
    limit = limit_of({HERE: [Pass(30, then)]}, HERE, now)
    assert limit.seconds == seconds
    assert f"with the patience of {now:.3g} here" in limit.why


def test_without_a_pass_the_tier_gives_it() -> None:
    whole = limit_of({}, Place("interop.rbd", "full", "local"), 1.0)
    assert (whole.of, whole.seconds) == ("interop.rbd", 6 * 3600)
    limit = limit_of({Place("interop.rbd", "full", "local"): [Pass(1, 1)]}, HERE, 2.0)
    assert limit.seconds == 7200
    assert limit.why == "no pass is kept: 3600 s for the quick tier, times the patience of 2"


def test_what_daemons_grew_by_in_passes_limits_it() -> None:
    passes = {HERE: [Pass(1, 1, {"osd threads": 2}), Pass(1, 1, {"osd threads": 5, "mon files": 0}), Pass(1, 1)]}
    assert growth_limits(passes, HERE) == {
        "osd threads": [4 * 5 + 16, "4 times the most of 2 kept passes (5) plus 16"],
        "mon files": [32, "4 times the most of 2 kept passes (0) plus 32"],
    }
    assert growth_limits(passes, Place("interop.rbd", "full", "local")) == {}
    much = {HERE: [Pass(1, 1, {"osd resident": 1 << 40})]}
    assert growth_limits(much, HERE)["osd resident"][0] == MOST_GROWN["resident"]
    assert {name for name in GROWN_MORE if " " not in name} == MOST_GROWN.keys()
    lazy = {HERE: [Pass(1, 1, {"rgw threads": 0})]}
    assert growth_limits(lazy, HERE)["rgw threads"][0] == MOST_GROWN["threads"], "it starts them with its first clients"


def test_growth_is_read_from_the_history_of_a_pass(tmp_path: Path) -> None:
    keep(tmp_path, "1", [verdict("pass", 7.0)])
    events = [
        {"scenario": "interop.rbd", "at_s": 1, "kind": "observation", "data": {"what": "aftermath", "got": 1}},
        {"scenario": "interop.rbd", "at_s": 2, "kind": "aftermath", "data": {"held": {"osd.0": {"files": [1, 4]}}}},
        {"scenario": "interop.x", "at_s": 3, "kind": "aftermath", "data": {"held": {"osd.0": {"files": [1, 9]}}}},
    ]
    (tmp_path / "1" / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert kept_passes(tmp_path) == {HERE: [Pass(7.0, 2.5, {"osd files": 3})]}


def keep(folder: Path, name: str, verdicts: list[dict[str, Any]], **manifest: Any) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "verdicts.json").write_text(json.dumps({"verdicts": verdicts}))
    clusters = [{"name": "c1", "provider": "local", "patience": 2.5}]
    kept = {"tier": "quick", "clusters": clusters, "state": "complete", **manifest}
    (folder / name / "manifest.json").write_text(json.dumps(kept))


def verdict(ending: str, seconds: float, cluster: str | None = "c1") -> dict[str, Any]:
    return {"scenario": "interop.rbd", "ending": ending, "seconds": seconds, "cluster": cluster}


def test_only_passes_on_a_known_cluster_are_read(tmp_path: Path) -> None:
    keep(
        tmp_path, "1", [verdict("pass", 7.0), verdict("fail", 900.0), verdict("pass", 5.0, None), verdict("pass", 0.0)]
    )
    keep(tmp_path, "2", [verdict("pass", 8.0)], tier="full")
    keep(tmp_path, "3", [verdict("pass", 0.5)])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "verdicts.json").write_text("{")
    passes = kept_passes(tmp_path)
    assert passes == {
        HERE: [Pass(0.5, 2.5), Pass(7.0, 2.5)],
        Place("interop.rbd", "full", "local"): [Pass(8.0, 2.5)],
    }


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert kept_passes(tmp_path / "none") == {}


@pytest.mark.slow
def test_only_the_newest_archives_are_read(tmp_path: Path) -> None:
    for number in range(MOST_ARCHIVES + 1):
        keep(tmp_path, f"{number:04}", [verdict("pass", 1.0 + number)])
    kept = kept_passes(tmp_path)[HERE]
    assert (len(kept), min(each.seconds for each in kept)) == (MOST_ARCHIVES, 2.0)


def test_the_last_time_is_that_of_the_newest_run_that_came_to_a_verdict(tmp_path: Path) -> None:
    keep(tmp_path, "1", [verdict("pass", 7.0), {**verdict("fail", 30.0), "scenario": "interop.x"}])
    keep(tmp_path, "2", [verdict("pass", 8.0, None)])
    keep(tmp_path, "3", [verdict("skip", 0.0), verdict("error", 2.0)])
    keep(tmp_path, "4", [verdict("inconclusive", 1.0)], state="interrupted")
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "verdicts.json").write_text("{")
    names = ["interop.rbd", "interop.x", "interop.new"]
    assert last_times(tmp_path, names) == {"interop.rbd": 8.0, "interop.x": 30.0}
    keep(tmp_path, "6", [verdict("inconclusive", 9.0)])
    assert last_times(tmp_path, names) == {"interop.rbd": 9.0, "interop.x": 30.0}
    assert last_times(tmp_path / "none", names) == {}


def test_the_newest_run_is_that_which_began_last_whatever_its_name_is(tmp_path: Path) -> None:
    keep(tmp_path, "a", [verdict("pass", 7.0)], started="2026-11-22T09:00:00+00:00")
    keep(tmp_path, "b", [verdict("pass", 8.0)], started="2026-11-22T10:30:00+02:00")
    keep(tmp_path, "c", [verdict("pass", 9.0)])
    assert [path.name for path in by_start(tmp_path)] == ["c", "b", "a"]
    assert last_times(tmp_path, ["interop.rbd"]) == {"interop.rbd": 7.0}
