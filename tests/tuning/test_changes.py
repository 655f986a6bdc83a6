"""Changes of a profile on the command line: read like its file, refused where they name no place."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.changes import sweep_of
from cephlab.tuning.profilefile import load_hardware
from tests.tuning.test_requirements import file_with


def test_a_change_is_read_like_the_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "")
    changes = ("nodes.count=7", "nodes.altra.bandwidth=100 Gb/s", "nodes.altra.cd8.count=5", "network.mtu_bytes=1500")
    made = load_hardware(path, [change.replace("altra.cd8", "disks.cd8") for change in changes]).profile
    [altra] = made.nodes
    assert (altra.count, altra.bandwidth.value, altra.disks[0].count, made.mtu_bytes) == (7, 12.5e9, 5, 1500)
    assert altra.bandwidth.source == "--set nodes.altra.bandwidth=100 Gb/s"
    assert made.name.startswith("ampere-altra-4n, nodes.count=7, ")


NO_CHANGES = (
    ("nodes.count", "--set needs PLACE=VALUE"),
    ("=3", "--set needs PLACE=VALUE"),
    ("nodes.epyc.count=3", "the profile has no 'epyc' there"),
    ("switches.count=3", "the profile has no 'switches' there"),
    ("nodes.memory.value=3 GB", "--set takes a whole figure"),
    ("nodes.count=three", "nodes.0.count: got 'three'"),
    ("nodes.cuont=3", "nodes.0.cuont: unknown key"),
    ("nodes.bandwidth=3 W", "nodes.0.bandwidth: got '3 W'"),
)


@pytest.mark.parametrize(("change", "said"), NO_CHANGES)
def test_what_is_no_change_is_refused(tmp_path: Path, change: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_hardware(file_with(tmp_path, ""), [change])
    assert said in f"{caught.value.what}\n{caught.value.detail}"


def test_of_several_kinds_of_nodes_a_change_names_one(tmp_path: Path) -> None:
    path = file_with(tmp_path, "", "altra-3n-epyc-1n")
    with pytest.raises(SpecError, match="--set has to say which one"):
        load_hardware(path, ["nodes.count=6"])
    assert [machine.count for machine in load_hardware(path, ["nodes.epyc.count=6"]).profile.nodes] == [3, 6]


def test_a_sweep_is_a_place_and_its_values() -> None:
    assert sweep_of("nodes.count=3..5") == ("nodes.count", range(3, 6))
    assert sweep_of("depth") is None
    for wrong in ("nodes.count=5..3", "nodes.count=1..999"):
        with pytest.raises(SpecError, match="points"):
            sweep_of(wrong)
