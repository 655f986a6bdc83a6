"""Names of the container provider, without an engine."""

from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL
from cephlab.lab.providers.container import names
from cephlab.lab.providers.engine import places


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


def test_disks_are_below_the_volume_that_holds_them() -> None:
    assert places.disk_file("d0").is_relative_to(places.DISKS_DIRECTORY)
    assert not names.disk_device("d0").is_relative_to(places.DISKS_DIRECTORY)
