"""Names of the container provider, without an engine."""

from __future__ import annotations

from pathlib import Path

from lab.home import Home
from lab.providers.container import names
from lab.runs import LABEL, Runs


def test_names_of_different_runs_never_meet() -> None:
    def everything(run: str, part: str) -> set[str]:
        return {
            names.network_name(run),
            names.disks_volume(run),
            names.container_name(run, part),
            names.node_volume(run, part),
        }

    assert everything("a", "b-c") & everything("a-b", "c") == set()
    assert len(everything("a", "b")) == 4


def test_labels_tell_two_homes_apart(tmp_path: Path) -> None:
    first, second = (Home(tmp_path / name) for name in ("one", "two"))
    assert names.labels("demo", first)[LABEL] == names.labels("demo", second)[LABEL] == "demo"
    assert names.labels("demo", first) != names.labels("demo", second)


def test_the_home_of_a_run_is_found_from_the_run(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert names.home_of(Runs(home).create("container")) == home


def test_disks_are_below_the_volume_that_holds_them() -> None:
    assert names.disk_file("d0").is_relative_to(names.DISKS_DIRECTORY)
    assert not names.disk_device("d0").is_relative_to(names.DISKS_DIRECTORY)
