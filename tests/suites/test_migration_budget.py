"""Time limits of a migration: what the lab moved, scaled to the paper's machines and to those of a profile."""

from pathlib import Path

import pytest

from cephlab.lab.checks.service import service
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import History
from cephlab.suites.migration.budget import REUSE, SWAP, at_scale, by_profile
from cephlab.tuning.profilefile import SHIPPED, find_profile, load_hardware


@pytest.mark.parametrize(
    ("procedure", "moved", "outcome"),
    [
        (SWAP, 1.0, Outcome.PASS),
        (SWAP, 1.6, Outcome.FAIL),  # as without the flags that stop backfill: 75 minutes would not do
        (REUSE, 0.0, Outcome.PASS),
        (REUSE, 0.2, Outcome.FAIL),  # nothing like that is copied in five minutes
    ],
)
def test_what_a_lab_moved_is_held_against_the_papers_time(procedure: str, moved: float, outcome: Outcome) -> None:
    estimate = at_scale(procedure, moved * 1e6, 1e6)
    recorder = History().recorder("s")
    recorder.figure("paper_recovery_s", estimate.seconds, "s", estimate.bound)
    assert service(recorder.events()).outcome is outcome


def test_the_limit_says_what_was_published_and_which_share_moved() -> None:
    why = at_scale(SWAP, 2e6, 8e6).bound.why
    assert why.startswith("published: 9.1: 75 minutes")
    assert "0.25 of the replaced nodes' data moved here" in why


NODE = """
[[requirements]]
name = "node"
kind = "recovery"
fill = 0.7
protection = "replicated:2"
at_most = "LIMIT"
"""


def by_file(folder: Path, moved: float, limit: str, changes: tuple[str, ...] = ()) -> History:
    path = folder / "ibm-r760-12n.toml"
    path.write_text((SHIPPED / path.name).read_text() + (NODE.replace("LIMIT", limit) if limit else ""))
    estimate = by_profile(load_hardware(path, changes), moved, lambda name: find_profile(name, folder))
    assert "ibm-r760-12n" in estimate.bound.why
    history = History()
    history.recorder("s").figure(
        "recovery_s", estimate.seconds, "s", estimate.bound, interval=(estimate.low, estimate.high)
    )
    return history


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moved", "limit", "outcome"),
    [
        (1.0, "40 h", Outcome.PASS),
        (1.0, "90 min", Outcome.INCONCLUSIVE),
        (1.0, "10 min", Outcome.FAIL),
        (0.0, "10 min", Outcome.PASS),
        (9.0, "90 min", Outcome.FAIL),
    ],
)
def test_what_a_lab_moved_is_held_to_the_requirement_of_the_profile_by_its_interval(
    tmp_path: Path, moved: float, limit: str, outcome: Outcome
) -> None:
    """A profile that wants its nodes back sooner turns the same migration red."""
    assert service(by_file(tmp_path, moved, limit).events()).outcome is outcome


def test_a_profile_that_wants_nothing_of_a_migration_limits_nothing(tmp_path: Path) -> None:
    """A limit from the same model would be a constant: no machine could keep or break it."""
    [event] = by_file(tmp_path, 5.0, "").events()
    assert (event.data["least"], event.data["most"], event.data["basis"]) == (None, None, "profile")
    assert event.data["why"].startswith("the model's own figure, because ibm-r760-12n has no recovery requirement")
    assert event.data["low"] < event.data["value"] < event.data["high"]


def test_without_a_requirement_a_node_is_as_full_as_that_of_the_papers_cluster(tmp_path: Path) -> None:
    """That is 70 %, which the requirement of these tests states too."""
    [free], [stated] = by_file(tmp_path, 1.0, "").events(), by_file(tmp_path, 1.0, "40 h").events()
    assert free.data["value"] == pytest.approx(stated.data["value"])
    for event in (free, stated):
        assert any(line.startswith("rate by network into the new node: ") for line in event.data["derivation"])


@pytest.mark.slow
def test_slower_machines_turn_a_migration_red(tmp_path: Path) -> None:
    slow = by_file(tmp_path, 1.0, "10 h", ("nodes.bandwidth=1 Gb/s",))
    assert service(by_file(tmp_path, 1.0, "10 h").events()).outcome is Outcome.PASS
    assert service(slow.events()).outcome is Outcome.FAIL
